package main

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// growth tells from the free space of a disk how long it will last, and from the
// size of a store how fast it grows.
type growth struct {
	mu      sync.Mutex
	samples []sample // the oldest first; guarded by mu
}

// sample is how many bytes there were at a time.
type sample struct {
	at    time.Time
	bytes int64
}

const (
	// sampleEvery and mostSamples: what is told is the mean of a day.
	sampleEvery = 10 * time.Minute
	mostSamples = 24*6 + 1
)

// note notes how many bytes there are now.
func (g *growth) note(now time.Time, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.samples); n > 0 && now.Sub(g.samples[n-1].at) < sampleEvery {
		return
	}
	g.samples = append(g.samples, sample{now, bytes})
	if len(g.samples) > mostSamples {
		g.samples = append(g.samples[:0], g.samples[1:]...)
	}
}

// days returns after how many days only a reserve is left, at the pace of the last
// day; +Inf: what is free does not become less, or that is not known yet.
func (g *growth) days(reserve int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < 2 {
		return math.Inf(1)
	}
	first, last := g.samples[0], g.samples[len(g.samples)-1]
	taken := float64(first.bytes - last.bytes)
	if taken <= 0 {
		return math.Inf(1)
	}
	left := max(0, float64(last.bytes-reserve))
	return left / taken * last.at.Sub(first.at).Hours() / 24
}

// pace returns by how many bytes a day what was noted grew in the last day; false:
// that is not known yet.
func (g *growth) pace() (bytes float64, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < 2 {
		return 0, false
	}
	first, last := g.samples[0], g.samples[len(g.samples)-1]
	return float64(last.bytes-first.bytes) / last.at.Sub(first.at).Hours() * 24, true
}

// bytesIn returns how many bytes the files of a folder have. Files may come and go
// meanwhile.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}
