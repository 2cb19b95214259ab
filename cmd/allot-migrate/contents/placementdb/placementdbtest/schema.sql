-- The schema of Placement, in the types that all databases know. Foreign keys, unique keys and what
-- must not be null of consumers are left out, so that rows can be as odd as they are found.
-- TIMES are two columns, created_at and updated_at.
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE resource_providers (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL, name VARCHAR(200),
  generation INTEGER, root_provider_id INTEGER, parent_provider_id INTEGER);
CREATE TABLE inventories (TIMES, id INTEGER PRIMARY KEY, resource_provider_id INTEGER NOT NULL,
  resource_class_id INTEGER NOT NULL, total INTEGER NOT NULL, reserved INTEGER NOT NULL, min_unit INTEGER NOT NULL,
  max_unit INTEGER NOT NULL, step_size INTEGER NOT NULL, allocation_ratio FLOAT NOT NULL);
CREATE TABLE allocations (TIMES, id INTEGER PRIMARY KEY, resource_provider_id INTEGER NOT NULL,
  consumer_id VARCHAR(36) NOT NULL, resource_class_id INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE consumers (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL, project_id INTEGER,
  user_id INTEGER, generation INTEGER NOT NULL, consumer_type_id INTEGER);
CREATE TABLE projects (TIMES, id INTEGER PRIMARY KEY, external_id VARCHAR(255) NOT NULL);
CREATE TABLE users (TIMES, id INTEGER PRIMARY KEY, external_id VARCHAR(255) NOT NULL);
CREATE TABLE consumer_types (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE resource_classes (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE traits (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE resource_provider_traits (TIMES, trait_id INTEGER NOT NULL, resource_provider_id INTEGER NOT NULL);
CREATE TABLE placement_aggregates (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36));
CREATE TABLE resource_provider_aggregates (TIMES, resource_provider_id INTEGER NOT NULL, aggregate_id INTEGER NOT NULL);
