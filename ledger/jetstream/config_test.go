package jetstream

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	if err := checkConfig(good); err != nil {
		t.Fatal(err)
	}
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
