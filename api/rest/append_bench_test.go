package rest

import "testing"

// BenchmarkEncode is what an answer costs beside the same in memory of its own: a usual
// one, and a list of a thousand.
func BenchmarkEncode(b *testing.B) {
	one := map[string]any{
		"resource_provider_generation": int64(7),
		"usages":                       map[string]any{"VCPU": int64(3), "MEMORY_MB": int64(4096), "DISK_GB": int64(100)},
	}
	list := make(pairs, 1000)
	for i := range list {
		list[i] = "11111111-1111-4111-8111-111111111111"
	}
	for name, document := range map[string]any{"one": one, "list": list} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(document); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/of its own", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := AppendJSON(nil, document); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
