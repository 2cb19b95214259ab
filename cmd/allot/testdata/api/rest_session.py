"""Uses every kind of operation once, by the client that is made from the description."""
import sys

from rest_client import Client

c, latest = Client(sys.argv[1], "admin"), {"openstack_api_version": "placement 1.39"}
host, consumer = "11111111-1111-4111-8111-111111111111", "aaaaaaaa-0000-4000-8000-000000000001"
c.createProvider({"name": "host", "uuid": host}, **latest)
c.replaceInventories({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}, uuid=host, **latest)
c.allocateOne({
    "allocations": {host: {"resources": {"VCPU": 2}}}, "project_id": "p", "user_id": "u",
    "consumer_generation": None, "consumer_type": "INSTANCE",
}, consumer_uuid=consumer, **latest)
assert c.showProviderUsages(uuid=host, **latest)["usages"] == {"VCPU": 2}
assert c.showProviderUsages(uuid=host, at=c.isReady()["sequence"] - 1, **latest)["usages"] == {"VCPU": 0}
assert len(c.listCandidates(resources="VCPU:6", **latest)["allocation_requests"]) == 1
assert c.askWhy(consumer=consumer, provider=host)["holds"] == {"VCPU": 2}
node = c.createNode({"driver": "ipmi", "name": "metal", "resource_class": "gold"}, x_openstack_ironic_api_version="1.79")
assert c.showNode(node="metal", x_openstack_ironic_api_version="1.79")["uuid"] == node["uuid"]
assert c.isReady()["status"] == "ok"
print("fine")
