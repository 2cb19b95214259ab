package projector

import "time"

// StoreStats are Pebble's statistics of the read models' files.
type StoreStats struct {
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

// StoreStats returns Pebble's present statistics; zeros once the read models are
// closed.
func (p *Projector) StoreStats() StoreStats {
	m := p.models.Load()
	if !m.users.enter() {
		return StoreStats{}
	}
	defer m.users.leave()
	now := m.db.Metrics()
	return StoreStats{
		DiskBytes: now.DiskSpaceUsage(), WALBytes: now.WAL.Size,
		CacheHits: now.BlockCache.Hits, CacheMisses: now.BlockCache.Misses,
		Compactions: now.Compact.Count, Flushes: now.Flush.Count, DebtBytes: now.Compact.EstimatedDebt,
		ReadAmplification: now.ReadAmp(), HeldUp: time.Duration(m.slow.held.Load()),
	}
}
