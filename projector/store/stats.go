package store

import "time"

// Stats are Pebble's statistics of the read models' files.
type Stats struct {
	// DiskBytes is the size of all files, WALBytes the part in the write-ahead
	// log that is not in tables yet.
	DiskBytes, WALBytes uint64
	// CacheHits and CacheMisses count the blocks that were found in memory, and
	// those that were not.
	CacheHits, CacheMisses int64
	// Compactions and Flushes count those since the start; DebtBytes is how many
	// bytes wait for compaction.
	Compactions, Flushes int64
	DebtBytes            uint64
	// ReadAmplification is how many tables one read may have to search.
	ReadAmplification int
	// HeldUp is how long writes were held up because more came than is compacted.
	HeldUp time.Duration
}

// Stats returns Pebble's present statistics; zeros once the store is closed.
func (s *Store) Stats() Stats {
	if !s.users.enter() {
		return Stats{}
	}
	defer s.users.leave()
	now := s.db.Metrics()
	return Stats{
		DiskBytes: now.DiskSpaceUsage(), WALBytes: now.WAL.Size,
		CacheHits: now.BlockCache.Hits, CacheMisses: now.BlockCache.Misses,
		Compactions: now.Compact.Count, Flushes: now.Flush.Count, DebtBytes: now.Compact.EstimatedDebt,
		ReadAmplification: now.ReadAmp(), HeldUp: time.Duration(s.slow.held.Load()),
	}
}
