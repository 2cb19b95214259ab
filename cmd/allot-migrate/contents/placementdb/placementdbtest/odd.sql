-- Rows of every kind that real databases have, and an import takes: none is refused. They fit beside
-- the world, and into the tables that a Placement made.
INSERT INTO resource_classes (id, name) VALUES (9001, 'MISSPELT');
INSERT INTO traits (id, name) VALUES (90001, 'HW_GONE');
INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id, created_at) VALUES
  (9001, 'AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA', NULL, 3, 9001, NULL, '2020-01-01 00:00:00'),
  (9002, 'bbbbbbbbbbbb4bbb8bbbbbbbbbbbbbbb', 'dashes', 3, NULL, NULL, '2020-01-01 00:00:00');
INSERT INTO inventories (id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size,
  allocation_ratio, created_at) VALUES
  (9001, 9001, 0, 2, 0, 2, 2, 2, 0.5, '2020-01-01 00:00:00'),
  (9002, 9001, 9001, 5, 6, 1, 1, 1, 0.1, '2020-01-01 00:00:00'),
  (9003, 9002, 1, 7, 0, 1, 7, 1, 1.0, NULL), (9004, 9999, 0, 7, 0, 1, 7, 1, 1.0, NULL);
INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES (9001, 90001);
INSERT INTO allocations (id, resource_provider_id, consumer_id, resource_class_id, used, created_at) VALUES
  (9001, 9001, '55555555-5555-4555-8555-555555555555', 0, 5, '2020-01-02 00:00:00'),
  (9002, 9001, 'no uuid at all', 9001, 3, '2020-01-02 00:00:00'),
  (9003, 9002, 'CCCCCCCC-CCCC-4CCC-8CCC-CCCCCCCCCCCC', 1, 1, '2020-01-02 00:00:00'),
  (9004, 9002, 'cccccccccccc4ccc8ccccccccccccccc', 1, 1, '2020-01-02 00:00:00');
INSERT INTO consumers (id, uuid, project_id, user_id, generation, created_at) VALUES
  (9001, '66666666-6666-4666-8666-666666666666', 1, 1, 0, '2020-01-01 00:00:00'),
  (9002, 'CCCCCCCC-CCCC-4CCC-8CCC-CCCCCCCCCCCC', 1, 1, 4, '2020-01-01 00:00:00'),
  (9003, 'cccccccccccc4ccc8ccccccccccccccc', 1, 1, 4, '2020-01-01 00:00:00');
INSERT INTO placement_aggregates (id, uuid) VALUES (9001, '77777777-7777-4777-8777-777777777777');
UPDATE inventories SET total = 1, allocation_ratio = 0.25 WHERE resource_class_id = 1;
