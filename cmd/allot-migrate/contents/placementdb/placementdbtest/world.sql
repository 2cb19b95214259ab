-- A host with a child, and a server that holds 2 VCPU of the host.
INSERT INTO alembic_version VALUES ('a082b8bb98d0');
INSERT INTO resource_classes (id, name) VALUES (0, 'VCPU'), (1, 'MEMORY_MB'), (10000, 'CUSTOM_GOLD');
INSERT INTO traits (id, name) VALUES (1, 'HW_CPU_X86_AVX'), (2, 'CUSTOM_A');
INSERT INTO resource_providers (created_at, updated_at, id, uuid, name, generation, root_provider_id,
  parent_provider_id) VALUES
  ('2024-01-01 00:00:00', '2024-02-01 10:11:12', 1, '11111111-1111-4111-8111-111111111111', 'host', 7, 1, NULL),
  ('2024-01-01 00:00:00', NULL, 2, '22222222-2222-4222-8222-222222222222', 'numa', 1, 1, 1);
INSERT INTO inventories (created_at, id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,
  step_size, allocation_ratio) VALUES
  ('2024-01-01 00:00:00', 1, 1, 0, 8, 1, 1, 8, 1, 16.1), ('2024-01-01 00:00:00', 2, 2, 10000, 4, 0, 1, 4, 1, 1.0);
INSERT INTO resource_provider_traits (trait_id, resource_provider_id) VALUES (1, 1), (2, 2);
INSERT INTO placement_aggregates (id, uuid) VALUES (1, '33333333-3333-4333-8333-333333333333');
INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (1, 1);
INSERT INTO projects (id, external_id) VALUES (1, 'p');
INSERT INTO users (id, external_id) VALUES (1, 'u');
INSERT INTO consumer_types (id, name) VALUES (1, 'INSTANCE');
INSERT INTO consumers (created_at, id, uuid, project_id, user_id, generation, consumer_type_id) VALUES
  ('2024-03-01 00:00:00', 1, '44444444-4444-4444-8444-444444444444', 1, 1, 2, 1);
INSERT INTO allocations (created_at, id, resource_provider_id, consumer_id, resource_class_id, used) VALUES
  ('2024-03-01 00:00:00', 1, 2, '44444444-4444-4444-8444-444444444444', 10000, 1),
  ('2024-03-01 00:00:00', 2, 1, '44444444-4444-4444-8444-444444444444', 0, 2);
