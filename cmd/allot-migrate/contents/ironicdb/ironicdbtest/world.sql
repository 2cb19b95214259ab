-- A chassis with a node that an allocation has, and a free node. They can be put into a database that
-- Ironic made, too.
INSERT INTO chassis (created_at, id, uuid, extra, description) VALUES
  ('2024-01-01 00:00:00', 1, '11111111-aaaa-4111-8111-111111111111', '{"row": 4}', 'rack');
INSERT INTO nodes (created_at, updated_at, provision_updated_at, id, uuid, instance_uuid, name, chassis_id, power_state,
  provision_state, instance_info, properties, driver, driver_info, resource_class, maintenance, maintenance_reason,
  extra,
  automated_clean, protected, owner, lessee, conductor_group, description, boot_interface, retired, network_data) VALUES
  ('2024-01-02 00:00:00', '2024-02-01 10:11:12', '2024-01-03 00:00:00', 1, '22222222-aaaa-4222-8222-222222222222', '44444444-aaaa-4444-8444-444444444444', 'node-1', 1,
   'power on', 'active', '{"capabilities": "x"}', '{"cpus": 4}', 'ipmi',
   '{"ipmi_username": "root", "ipmi_password": "bmc-s3cret"}', 'baremetal', TRUE, 'fan', '{}', FALSE, FALSE, 'p',
   'q', 'east',
   'a node', 'ipxe', TRUE, '{"links": [1]}'),
  ('2024-01-02 00:00:00', NULL, NULL, 2, '33333333-aaaa-4333-8333-333333333333', NULL, NULL, NULL, 'power off', 'available', NULL, NULL, 'ipmi', NULL,
   'baremetal', FALSE, NULL, NULL, NULL, FALSE, NULL, NULL, '', NULL, NULL, FALSE, NULL);
INSERT INTO node_traits (node_id, trait) VALUES (1, 'HW_CPU_X86_VMX'), (1, 'CUSTOM_GOLD');
INSERT INTO allocations (created_at, updated_at, id, uuid, name, node_id, state, owner, last_error, resource_class,
traits,
  candidate_nodes, extra) VALUES
  ('2024-01-03 00:00:00', '2024-01-03 00:00:01', 1, '44444444-aaaa-4444-8444-444444444444', 'a-1', 1, 'active', 'p', NULL, 'baremetal',
   '["CUSTOM_GOLD"]', '["22222222-aaaa-4222-8222-222222222222"]', '{"k": "v"}'),
  ('2024-01-04 00:00:00', NULL, 2, '55555555-aaaa-4555-8555-555555555555', NULL, NULL, 'error', NULL, 'no node', 'none', '[]', '[]', NULL);
UPDATE nodes SET allocation_id = 1 WHERE id = 1;
INSERT INTO ports (id, uuid, address) VALUES (1, '66666666-aaaa-4666-8666-666666666666', '52:54:00:00:00:01');
