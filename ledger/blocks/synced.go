package blocks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger/durable"
)

// The blocks of a replicated stream are synced by the NATS server only when it shortens its
// agreements with the other servers, minutes apart: it writes what came later again, from
// those, at its next start. So a replica's blocks can have any bytes after a power cut behind
// the place where they were last synced. That is no damage, and is cut off before the server
// opens them. Before that place it is damage, as always.

// extent is how far something goes in the log's blocks.
type extent struct {
	block  int
	offset int64
}

func (p extent) before(other extent) bool {
	return cmp.Or(cmp.Compare(p.block, other.block), cmp.Compare(p.offset, other.offset)) < 0
}

func (p extent) encode(slot []byte) {
	binary.BigEndian.PutUint32(slot[slotExtent:], uint32(p.block))
	binary.BigEndian.PutUint32(slot[slotExtent+4:], uint32(p.offset))
	sum := sha256.Sum256(slot[:slotEnd])
	copy(slot[slotEnd:], sum[:slotCheck])
}

// decodeExtent reads the extent of a slot; the zero extent if there is none.
func decodeExtent(slot []byte) extent {
	sum := sha256.Sum256(slot[:slotEnd])
	if string(sum[:slotCheck]) != string(slot[slotEnd:]) {
		return extent{}
	}
	return extent{
		int(binary.BigEndian.Uint32(slot[slotExtent:])), int64(binary.BigEndian.Uint32(slot[slotExtent+4:])),
	}
}

// syncer syncs the blocks of a log while a NATS server writes them.
type syncer struct {
	Folder
	newest int // block that was the newest; 0: not known
}

// sync makes the newest block durable, and those that were filled since the last time. It
// returns up to where the log is durable then.
func (s *syncer) sync() (p extent, err error) {
	if s.newest == 0 {
		list, err := s.blocks()
		if errors.Is(err, ErrNoLog) {
			return p, nil
		}
		if err != nil || len(list) == 0 {
			return p, err
		}
		s.newest = list[len(list)-1].number
	}
	for number := s.newest; ; number++ {
		size, err := syncFile(s.blockPath(number))
		switch {
		case err == nil:
			p, s.newest = extent{number, size}, number
		case !errors.Is(err, os.ErrNotExist):
			return p, err
		case p == extent{}: // the server has removed it
			s.newest = 0
			return p, nil
		default:
			return p, durable.SyncFolder(s.messages())
		}
	}
}

// syncFile returns the size up to which a file is durable.
func syncFile(path string) (int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// JudgeReplica is Judge for a replica, whose log may lack commits at its end: the other
// replicas have them. What a power cut has left of blocks that were not synced is cut off.
func (f Folder) JudgeReplica(ctx context.Context, opts CheckOptions) (v *Verdict, err error) {
	v = &Verdict{}
	if v.Begin, err = f.Beginning(); err != nil {
		return nil, err
	}
	for {
		v.Report, err = f.Check(ctx, opts)
		var damage *DamageError
		switch {
		case errors.As(err, &damage):
		case err == nil && v.TornBytes > 0:
			damage = &DamageError{
				After: v.Last, Path: v.TornPath, Offset: int(v.TornAt),
				Reason: "the bytes there are no commit, although they were synced",
			}
		case errors.Is(err, ErrNoLog):
			return v, nil
		default:
			return v, err
		}
		if cut, failed := f.cutUnsynced(damage); failed != nil || !cut {
			v.Report = nil
			return v, cmp.Or(failed, error(damage))
		}
	}
}

// cutUnsynced cuts off the damaged end of a log, if it is behind the place up to which the
// blocks were synced.
func (f Folder) cutUnsynced(damage *DamageError) (cut bool, err error) {
	mark, synced, err := readHighWater(HighWaterPath(f.Store))
	number, isNumber := strconv.Atoi(strings.TrimSuffix(filepath.Base(damage.Path), blockSuffix))
	at := extent{number, int64(damage.Offset)}
	if err != nil || isNumber != nil || damage.Err != nil || mark.Sequence == 0 || at.before(synced) {
		return false, err
	}
	list, err := f.blocks()
	if err != nil {
		return false, err
	}
	for _, b := range list {
		switch {
		case b.number > number || b.number == number && at.offset == 0:
			err = os.Remove(b.path)
		case b.number == number:
			err = truncate(b.path, at.offset)
		}
		if err != nil {
			return false, joinErrors(err)
		}
	}
	return true, joinErrors(durable.SyncFolder(f.messages()))
}

// writtenAgain is how many bytes at the end of a stream are written again: more than a process
// writes between a sync that failed and its end.
const writtenAgain = 32 << 20

// WriteAgain writes what is newest in the store again, of all streams and of the agreements with
// other servers, with the same bytes: if a sync of it failed in an earlier process, it is on no
// disk, though it is read.
func (f Folder) WriteAgain() error {
	root := filepath.Join(f.Store, "jetstream")
	return joinErrors(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case path == root && errors.Is(err, os.ErrNotExist):
			return nil
		case err == nil && entry.IsDir() && entry.Name() == messagesFolder:
			return writeAgain(path)
		}
		return err
	}))
}

func writeAgain(dir string) error {
	list, err := blocksIn(dir)
	if err != nil {
		return err
	}
	written := int64(0)
	for _, b := range slices.Backward(list) {
		if written >= writtenAgain {
			break
		}
		if err := durable.WriteAgain(b.path); err != nil {
			return err
		}
		written += b.size
	}
	return durable.SyncFolder(dir)
}
