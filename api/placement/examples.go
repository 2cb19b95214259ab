package placement

import "maps"

// examples are bodies as a client would send them at the newest microversion,
// by the name of their schema.
var examples = func() map[string]any {
	const (
		host     = "11111111-1111-4111-8111-111111111111"
		card     = "22222222-2222-4222-8222-222222222222"
		consumer = "aaaaaaaa-0000-4000-8000-000000000001"
	)
	vcpus := m{"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 4.0}
	holding := m{
		"allocations": m{host: m{"resources": m{"VCPU": 2}}}, "project_id": "p", "user_id": "u",
		"consumer_generation": nil, "consumer_type": "INSTANCE",
	}
	both := func(a, b m) m {
		all := maps.Clone(a)
		maps.Copy(all, b)
		return all
	}
	return map[string]any{
		"create provider":  m{"name": "host-1", "uuid": host},
		"update provider":  m{"name": "card-1", "parent_provider_uuid": host},
		"create inventory": both(vcpus, m{"resource_class": "VCPU"}),
		"update inventory": both(vcpus, m{"resource_provider_generation": 1}),
		"replace inventories": m{
			"resource_provider_generation": 1, "inventories": m{"VCPU": vcpus, "MEMORY_MB": m{"total": 65536}},
		},
		"replace aggregates": m{
			"resource_provider_generation": 1, "aggregates": []any{"33333333-3333-4333-8333-333333333333"},
		},
		"replace traits": m{"resource_provider_generation": 1, "traits": []any{"HW_CPU_X86_AVX2"}},
		"resource class": m{"name": "CUSTOM_FPGA"},
		"allocate":       holding,
		"allocate many":  m{consumer: holding},
		"reshape": m{
			"inventories": m{
				host: m{"resource_provider_generation": 2, "inventories": m{"VCPU": vcpus}},
				card: m{"resource_provider_generation": 0, "inventories": m{"VGPU": m{"total": 2}}},
			},
			"allocations": m{consumer: m{
				"allocations": m{host: m{"resources": m{"VCPU": 2}}, card: m{"resources": m{"VGPU": 1}}},
				"project_id":  "p", "user_id": "u", "consumer_generation": 7, "consumer_type": "INSTANCE",
			}},
		},
	}
}()
