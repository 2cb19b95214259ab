# What openstacksdk's own functional tests of allocations do. The argument is the URL of the bare metal API.
import sys, openstack
from openstack import exceptions
c = openstack.connection.Connection(auth_type='none', endpoint=sys.argv[1],
    baremetal_endpoint_override=sys.argv[1], region_name='r')
b = c.baremetal
node = b.create_node(driver='fake-hardware', name='n1', resource_class='bm')
b.set_node_provision_state(node, 'manage', wait=True, timeout=10)
b.set_node_power_state(node, 'power off')
b.set_node_provision_state(node, 'provide', wait=True, timeout=10)
a = b.create_allocation(resource_class='bm')
assert a.state == 'allocating' and a.node_id is None and a.last_error is None, a
loaded = b.wait_for_allocation(a, timeout=10)
assert loaded.id == a.id and loaded.state == 'active', loaded
assert loaded.node_id == node.id and loaded.last_error is None, loaded
node = b.get_node(node.id)
assert node.allocation_id == a.id, node
assert [x.id for x in b.allocations(resource_class='bm')] == [a.id]
assert [x.id for x in b.allocations(state='active')] == [a.id]
assert not list(b.allocations(resource_class='other'))
with_fields = b.get_allocation(a.id, fields=['uuid', 'node_uuid'])
assert with_fields.node_id == node.id and with_fields.name is None
bad = b.create_allocation(resource_class='other', name='bad')
try:
    b.wait_for_allocation(bad, timeout=10)
    sys.exit('no failure')
except exceptions.ResourceFailure as e:
    assert 'other' in str(e), e
bad = b.get_allocation('bad')
assert bad.state == 'error' and 'other' in bad.last_error
b.delete_allocation('bad')
a = b.update_allocation(a, name='named', extra={'answer': 42})
assert b.get_allocation('named').extra == {'answer': 42}
a = b.patch_allocation(a, [{'op': 'replace', 'path': '/extra/answer', 'value': 43}, {'op': 'remove', 'path': '/name'}])
assert a.extra == {'answer': 43} and a.name is None, a
b.delete_allocation(a, ignore_missing=False)
for missing in (a.id, '5c9dcd04-2073-49bc-9618-99ae634d8971'):
    for call in (b.get_allocation, lambda i: b.delete_allocation(i, ignore_missing=False)):
        try:
            call(missing)
            sys.exit('found ' + missing)
        except exceptions.NotFoundException:
            pass
assert b.delete_allocation(a.id) is None
rack = b.create_chassis(description='rack', extra={'row': 1})
assert [x.id for x in b.chassis()] == [rack.id] and b.get_chassis(rack.id).extra == {'row': 1}
node = b.update_node(node, chassis_id=rack.id)
rack = b.update_chassis(rack, description='other')
assert b.find_chassis(rack.id).description == 'other'
try:
    b.delete_chassis(rack.id)
    sys.exit('a chassis with a node was deleted')
except exceptions.BadRequestException:
    pass
b.delete_node(node)
b.delete_chassis(rack, ignore_missing=False)
assert b.find_chassis(rack.id) is None
print('good')
