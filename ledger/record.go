package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Digest is a SHA-256 sum.
type Digest [32]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("ledger: %q is not a SHA-256 digest", text)
	}
	copy(d[:], raw)
	return nil
}

// Address names a record for ever: the sequence of its commit, and its index
// there, from 0.
type Address struct {
	Sequence uint64 `json:"sequence"`
	Index    int    `json:"index"`
}

// String returns SEQUENCE.INDEX.
func (a Address) String() string { return fmt.Sprintf("%d.%d", a.Sequence, a.Index) }

// ParseAddress reads SEQUENCE.INDEX.
func ParseAddress(text string) (Address, error) {
	sequence, index, found := strings.Cut(text, ".")
	n, err := strconv.ParseUint(sequence, 10, 64)
	i, err2 := strconv.ParseUint(index, 10, 31)
	if !found || err != nil || err2 != nil || n == 0 {
		return Address{}, fmt.Errorf("ledger: %q is not SEQUENCE.INDEX", text)
	}
	return Address{Sequence: n, Index: int(i)}, nil
}

// Record is one accepted command: who sent it, when, and the events that were
// decided. Its events happened together.
type Record struct {
	CommandID   UUID        `json:"command_id"`
	Fingerprint Fingerprint `json:"fingerprint"` // fingerprint of the command's content
	Command     string      `json:"command"`     // the command's name
	Time        int64       `json:"time"`        // Unix nanoseconds, by the writer's clock
	Actor       string      `json:"actor"`       // the authenticated user
	RequestID   string      `json:"request_id,omitempty"`
	Cause       *Address    `json:"cause,omitempty"` // the record that caused this one, if any
	Events      []Event     `json:"-"`
}

// Fingerprint identifies the content of a command, so that one command id cannot
// stand for two commands.
type Fingerprint [16]byte

// MarshalText implements encoding.TextMarshaler.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(f[:])), nil }

// CommandResult is the remembered result of an accepted command: the address of
// its record, and the fingerprint of its content.
type CommandResult struct {
	Address     Address
	Fingerprint Fingerprint
}

// Versions of stored forms.
const (
	recordVersion = 1
	commitVersion = 1
)

func (r *Record) form(c *coder) {
	c.fields("record", 9).version("record", recordVersion)
	c.pack(true)
	c.uuid(&r.CommandID).fixed(r.Fingerprint[:], "fingerprint")
	c.text(&r.Command).int(&r.Time).text(&r.Actor).text(&r.RequestID)
	optional(c, &r.Cause, (*Address).form)
	c.events(&r.Events)
	c.pack(false)
}

func (a *Address) form(c *coder) { c.fields("address", 2).uint(&a.Sequence).index(&a.Index) }

// linkForm visits the beginning of a commit, which links it to the one before.
func linkForm(c *coder, sequence *uint64, prev *Digest) {
	c.fields("commit", 4).version("commit", commitVersion).uint(sequence).digest(prev)
}

// Apply folds one record of commit sequence into the State. After an error, which
// wraps ErrInvariant, the commit must be undone.
func (s *State) Apply(sequence uint64, r *Record) error {
	if r.Time < s.lastTime {
		return fmt.Errorf("%w: command %s at %d is older than the record before it (%d)",
			ErrInvariant, r.CommandID, r.Time, s.lastTime)
	}
	s.lastTime = r.Time
	at := moment{sequence: sequence, time: r.Time}
	for i, event := range r.Events {
		if err := event.apply(s, at); err != nil {
			return fmt.Errorf("event %d (%s) of command %s: %w", i, KindOf(event), r.CommandID, err)
		}
	}
	return nil
}

// Commit is the unit of the log: the records of commands that were decided
// together, in order. It is one message of the stream, so either all of it is
// durable or nothing.
type Commit struct {
	Sequence uint64
	Prev     Digest // digest of the commit before it; zero for the first
	Records  []Record

	Digest Digest   // of the encoded commit; not part of the encoding
	Size   int      // of the encoded commit, in bytes; not part of the encoding
	Leaves []Digest // leaves of the records in the Merkle tree; not part of the encoding
}

// Head returns the commit's head.
func (c *Commit) Head() Head { return Head{Sequence: c.Sequence, Digest: c.Digest} }

// DigestOf returns the digest of an encoded commit. Because a commit holds the
// digest of the one before, a digest stands for the whole log up to there.
func DigestOf(encoded []byte) Digest { return sha256.Sum256(encoded) }

// LeafHash returns a record's leaf in the Merkle tree of all records (RFC 6962):
// the hash of a zero byte and LeafData.
func LeafHash(data []byte) Digest { return Digest(tlog.RecordHash(data)) }

// LeafData returns the content of a record's leaf: its sequence in 8 bytes and
// its index in 4, both big-endian, and the record as stored.
func LeafData(at Address, encoded []byte) []byte {
	return appendLeafData(make([]byte, 0, 12+len(encoded)), at, encoded)
}

func appendLeafData(data []byte, at Address, encoded []byte) []byte {
	data = binary.BigEndian.AppendUint64(data, at.Sequence)
	data = binary.BigEndian.AppendUint32(data, uint32(at.Index))
	return append(data, encoded...)
}

// DecodeLeafData is the inverse of LeafData; it decodes the record, too.
func DecodeLeafData(data []byte) (Address, *Record, error) {
	if len(data) < 12 {
		return Address{}, nil, fmt.Errorf("%w: a leaf of %d bytes", ErrCorrupt, len(data))
	}
	at := Address{Sequence: binary.BigEndian.Uint64(data), Index: int(binary.BigEndian.Uint32(data[8:]))}
	d := newDecoder(data[12:])
	record := new(Record)
	record.form(&d.form)
	return at, record, d.end()
}

// LeavesData returns the LeafData of each record of an encoded commit, in order.
func LeavesData(encoded []byte) ([][]byte, error) {
	c, parts, err := newDecoder(encoded).commit()
	if err != nil {
		return nil, err
	}
	for i, record := range parts {
		parts[i] = LeafData(Address{Sequence: c.Sequence, Index: i}, record)
	}
	return parts, nil
}

// DecodeCommit reads a stored commit. Any damage gives an error that wraps
// ErrCorrupt.
func DecodeCommit(encoded []byte) (*Commit, error) {
	c, parts, err := newDecoder(encoded).commit()
	if err != nil {
		return nil, err
	}
	c.Leaves = make([]Digest, len(parts))
	for i, record := range parts {
		c.Leaves[i] = LeafHash(LeafData(Address{Sequence: c.Sequence, Index: i}, record))
	}
	return c, nil
}

// leastRecord is less than any record takes: an id and a fingerprint with their lengths.
const leastRecord = 36

// commit reads a whole commit. It also returns its records as they are stored.
func (d *decoder) commit() (*Commit, [][]byte, error) {
	c := &Commit{}
	linkForm(&d.form, &c.Sequence, &c.Prev)
	n := d.array()
	if n == 0 {
		d.fail("commit without records")
	}
	room := min(n, d.in.Len()/leastRecord)
	c.Records = make([]Record, 0, room)
	parts := make([][]byte, 0, room)
	for i := 0; i < n && d.err == nil; i++ {
		begin := d.position()
		c.Records = append(c.Records, Record{})
		c.Records[i].form(&d.form)
		parts = append(parts, d.data[begin:d.position()])
	}
	if err := d.end(); err != nil {
		return nil, nil, err
	}
	c.Digest, c.Size = DigestOf(d.data), len(d.data)
	return c, parts, nil
}

// CommitBuilder encodes a commit record by record, so that the writer knows
// its size while it grows.
type CommitBuilder struct {
	sequence uint64
	prev     Digest
	records  []Record
	ends     []int // leaves of the records in body
	body     *encoder
	frame    *encoder
	leaf     []byte // scratch
}

// commitOverhead is an upper bound of the bytes that a commit takes besides its
// records.
const commitOverhead = 64

// NewCommitBuilder returns a builder. Begin starts its first commit.
func NewCommitBuilder() *CommitBuilder {
	return &CommitBuilder{body: newEncoder(), frame: newEncoder()}
}

// Begin starts the commit that follows head.
func (b *CommitBuilder) Begin(head Head) { b.BeginAt(head.Sequence+1, head.Digest) }

// BeginAt starts the commit at a sequence. prev is the digest of the commit
// before it.
func (b *CommitBuilder) BeginAt(sequence uint64, prev Digest) {
	b.sequence, b.prev = sequence, prev
	b.records, b.ends = make([]Record, 0, len(b.records)+1), b.ends[:0] // room for as many records as last time
	b.body.reset()
}

// Sequence returns the sequence of the commit being built.
func (b *CommitBuilder) Sequence() uint64 { return b.sequence }

// Len returns the number of records so far.
func (b *CommitBuilder) Len() int { return len(b.records) }

// Size returns the encoded size so far, in bytes, accurate to a few bytes.
func (b *CommitBuilder) Size() int { return b.body.buf.Len() + commitOverhead }

// Add appends a record if the commit then takes at most limit bytes. It reports
// whether it did, and the size that the commit would have had.
func (b *CommitBuilder) Add(r Record, limit int) (size int, fits bool, err error) {
	before := b.body.buf.Len()
	r.form(&b.body.form)
	if b.body.err != nil {
		return 0, false, fmt.Errorf("ledger: encode record: %w", b.body.err)
	}
	size = b.Size()
	if size > limit {
		b.body.buf.Truncate(before)
		return size, false, nil
	}
	b.records, b.ends = append(b.records, r), append(b.ends, b.body.buf.Len())
	return size, true, nil
}

// Seal returns the commit and its encoding.
func (b *CommitBuilder) Seal() (*Commit, []byte, error) {
	e := b.frame
	e.reset()
	linkForm(&e.form, &b.sequence, &b.prev)
	e.array(len(b.records))
	e.buf.Write(b.body.buf.Bytes())
	if e.err != nil {
		return nil, nil, fmt.Errorf("ledger: encode commit: %w", e.err)
	}
	encoded := append([]byte(nil), e.buf.Bytes()...)
	return &Commit{
		Sequence: b.sequence, Prev: b.prev, Records: b.records,
		Digest: DigestOf(encoded), Size: len(encoded), Leaves: b.leaves(),
	}, encoded, nil
}

func (b *CommitBuilder) leaves() []Digest {
	leaves := make([]Digest, len(b.records))
	begin := 0
	for i, end := range b.ends {
		b.leaf = appendLeafData(b.leaf[:0], Address{Sequence: b.sequence, Index: i}, b.body.buf.Bytes()[begin:end])
		leaves[i] = LeafHash(b.leaf)
		begin = end
	}
	return leaves
}

// EncodeCommit encodes a whole commit. It is the inverse of DecodeCommit.
func EncodeCommit(c *Commit) ([]byte, error) {
	b := NewCommitBuilder()
	b.Begin(Head{Sequence: c.Sequence - 1, Digest: c.Prev})
	for _, r := range c.Records {
		if _, _, err := b.Add(r, int(^uint(0)>>1)); err != nil {
			return nil, err
		}
	}
	_, encoded, err := b.Seal()
	return encoded, err
}

// Fold folds a commit read from the log and returns its changes for the
// projector. The commit must follow the State's head and carry its digest;
// entries between them are foreign, see Chain. After an error the State is as
// before.
func (s *State) Fold(c *Commit) (Changes, error) {
	if c.Sequence <= s.head.Sequence || c.Prev != s.head.Digest {
		return Changes{}, fmt.Errorf("%w: commit %d (prev %.8s) does not follow commit %d (%.8s)",
			ErrChain, c.Sequence, c.Prev, s.head.Sequence, s.head.Digest)
	}
	mark := s.Begin()
	for i := range c.Records {
		if err := s.Apply(c.Sequence, &c.Records[i]); err != nil {
			s.Undo(mark, s.changes)
			return Changes{}, fmt.Errorf("commit %d record %d: %w", c.Sequence, i, err)
		}
	}
	s.head = c.Head()
	return s.changes, nil
}

// Next returns the sequence of the next commit.
func (s *State) Next() uint64 { return max(s.head.Sequence, s.passed) + 1 }

// PassOver notes that the log holds no commits from the head up to a sequence.
func (s *State) PassOver(sequence uint64) { s.passed = max(s.passed, sequence) }

// Advance moves the head to a commit whose records were applied one by one.
func (s *State) Advance(head Head) { s.head = head }

// CommitLink reads only the link of an encoded commit: its sequence and the
// digest of the commit before it. The error wraps ErrCorrupt.
func CommitLink(encoded []byte) (sequence uint64, prev Digest, err error) {
	d := newDecoder(encoded)
	linkForm(&d.form, &sequence, &prev)
	return sequence, prev, d.err
}
