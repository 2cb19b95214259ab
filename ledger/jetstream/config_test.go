package jetstream

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// harmful are settings, by field, with which a stream is no log.
var harmful = map[string]any{
	"Subjects": []string{"other"}, "Retention": jetstream.WorkQueuePolicy, "Storage": jetstream.MemoryStorage,
	"MaxMsgs": int64(1), "MaxBytes": int64(1), "MaxAge": time.Second, "MaxMsgsPerSubject": int64(1),
	"MaxMsgSize": int32(1), "MaxConsumers": 1, "NoAck": true, "Sealed": true, "FirstSeq": uint64(2),
	"Mirror": &jetstream.StreamSource{Name: "other"}, "Sources": []*jetstream.StreamSource{{Name: "other"}},
	"DenyDelete": false, "DenyPurge": false, "AllowRollup": true, "PersistMode": jetstream.AsyncPersistMode,
	"SubjectTransform": &jetstream.SubjectTransformConfig{Source: ">", Destination: "other.>"}, "AllowMsgCounter": true,
	"AllowDirect": false, "AllowMsgTTL": true, "SubjectDeleteMarkerTTL": time.Second, "AllowMsgSchedules": true,
}

// harmless are settings that a log may have, with the reasons.
var harmless = map[string]string{
	"Name":                 "Allot is told it",
	"Description":          "it is not read",
	"Discard":              "without limits nothing is discarded",
	"DiscardNewPerSubject": "without limits nothing is discarded",
	"Replicas":             "more are better, and one is enough",
	"Duplicates":           "commits have no message ids",
	"Placement":            "where it is kept is the operator's choice",
	"Compression":          "what is read is the same",
	"RePublish":            "commits are told to others, and stay",
	"MirrorDirect":         "it is no mirror",
	"ConsumerLimits":       "readers that are refused say so",
	"Metadata":             "it is not read",
	"Template":             "templates are gone from NATS",
	"AllowAtomicPublish":   "only the writer may publish, and it does not",
	"AllowBatchPublish":    "only the writer may publish, and it does not",
}

// TestEverySettingIsJudged: every setting of a stream is either refused or
// declared harmless. A new field of nats.go is neither until it is judged here.
func TestEverySettingIsJudged(t *testing.T) {
	good := streamConfig(Config{Stream: DefaultStream})
	ledgertest.OK(t, checkConfig(good))
	for i := range reflect.TypeFor[jetstream.StreamConfig]().NumField() {
		name := reflect.TypeFor[jetstream.StreamConfig]().Field(i).Name
		value, bad := harmful[name]
		if _, fine := harmless[name]; fine == bad {
			t.Errorf("setting %s is to be judged", name)
		}
		if !bad {
			continue
		}
		spoilt := good
		reflect.ValueOf(&spoilt).Elem().Field(i).Set(reflect.ValueOf(value))
		if err := checkConfig(spoilt); err == nil {
			t.Errorf("%s = %v is not refused", name, value)
		}
	}
}

// silent is an append without an answer until the test gives one.
type silent struct {
	ok  chan *jetstream.PubAck
	err chan error
}

func (s *silent) Ok() <-chan *jetstream.PubAck { return s.ok }
func (s *silent) Err() <-chan error            { return s.err }
func (s *silent) Msg() *nats.Msg               { return nil }

// TestAppendAfterMove: an append that the stream's former leader has lost soon
// has an unknown fate, and one that the leader had taken is reported as stored.
func TestAppendAfterMove(t *testing.T) {
	l := &Log{}
	moved := l.moves.next()
	l.moves.tell()
	if err := l.fate(1, &silent{}, moved); !errors.Is(err, ledger.ErrUnknownFate) {
		t.Errorf("without an answer: %v", err)
	}
	taken := &silent{ok: make(chan *jetstream.PubAck, 1)}
	taken.ok <- &jetstream.PubAck{Sequence: 2}
	if err := l.fate(2, taken, moved); err != nil {
		t.Errorf("with an answer: %v", err)
	}
	if next := l.moves.next(); next == moved {
		t.Error("an append that comes after a move is taken for one before it")
	}
}
