package projector

// StoreStats is what Pebble says of the read models' files.
type StoreStats struct {
	// DiskBytes are those of all files, WALBytes those of the write-ahead log
	// that are not in tables yet.
	DiskBytes, WALBytes uint64
	// CacheHits and CacheMisses are blocks that were looked for in memory.
	CacheHits, CacheMisses int64
	// Compactions and Flushes are those since the start, DebtBytes those that
	// compactions are behind.
	Compactions, Flushes int64
	DebtBytes            uint64
	// ReadAmplification is how many tables a read may have to look into.
	ReadAmplification int
}

// StoreStats returns what Pebble says now; zeros while the read models are being
// made again.
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
		ReadAmplification: now.ReadAmp(),
	}
}
