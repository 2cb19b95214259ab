-- The columns of Ironic 21.4 of the tables that are read, and of two others, in types that all
-- databases know. Foreign keys and unique keys are left out, so that rows can be as odd as they are
-- found. TIMES are two columns, created_at and updated_at; TIMETYPE is the database's type of times.
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE chassis (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), extra TEXT,
  description VARCHAR(255));
CREATE TABLE conductors (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, hostname VARCHAR(255));
CREATE TABLE nodes (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), instance_uuid VARCHAR(36),
  name VARCHAR(255), chassis_id INTEGER, power_state VARCHAR(15), target_power_state VARCHAR(15),
  provision_state VARCHAR(15), target_provision_state VARCHAR(15), provision_updated_at TIMETYPE, last_error TEXT,
  instance_info TEXT, properties TEXT, driver VARCHAR(255), driver_info TEXT, driver_internal_info TEXT,
  clean_step TEXT,
  deploy_step TEXT, resource_class VARCHAR(80), raid_config TEXT, target_raid_config TEXT, reservation VARCHAR(255),
  conductor_affinity INTEGER, conductor_group VARCHAR(255) DEFAULT '' NOT NULL, maintenance BOOLEAN,
  maintenance_reason TEXT, fault VARCHAR(255), console_enabled BOOLEAN, inspection_finished_at TIMETYPE,
  inspection_started_at TIMETYPE, extra TEXT, automated_clean BOOLEAN, protected BOOLEAN DEFAULT FALSE NOT NULL,
  protected_reason TEXT, owner VARCHAR(255), lessee VARCHAR(255), allocation_id INTEGER, description TEXT,
  bios_interface VARCHAR(255), boot_interface VARCHAR(255), console_interface VARCHAR(255),
  deploy_interface VARCHAR(255),
  inspect_interface VARCHAR(255), management_interface VARCHAR(255), network_interface VARCHAR(255),
  raid_interface VARCHAR(255), rescue_interface VARCHAR(255), retired BOOLEAN, retired_reason TEXT, network_data TEXT,
  storage_interface VARCHAR(255), power_interface VARCHAR(255), vendor_interface VARCHAR(255), boot_mode VARCHAR(16),
  secure_boot BOOLEAN, shard VARCHAR(255));
CREATE TABLE node_traits (TIMES, version VARCHAR(15), node_id INTEGER NOT NULL, trait VARCHAR(255) NOT NULL);
CREATE TABLE ports (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), address VARCHAR(18));
CREATE TABLE allocations (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL,
name VARCHAR(255),
  node_id INTEGER, state VARCHAR(15) NOT NULL, owner VARCHAR(255), last_error TEXT, resource_class VARCHAR(80),
  traits TEXT,
  candidate_nodes TEXT, extra TEXT, conductor_affinity INTEGER);
INSERT INTO alembic_version VALUES ('4dbec778866e');
