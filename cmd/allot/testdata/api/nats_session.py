"""Submits commands and asks queries, by the client that is made from the description."""
import json
import sys
import urllib.request

from nats_client import Client

c = Client(sys.argv[2], json.load(urllib.request.urlopen(sys.argv[1] + "/asyncapi.json")))
host, consumer = "22222222-2222-4222-8222-222222222222", "bbbbbbbb-0000-4000-8000-000000000001"
assert "sequence" in c.CreateProvider(provider=host, name="other")
inventory = {"class": "VCPU", "total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1}
assert "sequence" in c.ReplaceInventories(provider=host, generation=0, inventories=[inventory])
done = c.AllocateForConsumers(allocations=[{
    "consumer": consumer, "project": "p", "user": "u", "type": "INSTANCE",
    "resources": [{"provider": host, "class": "VCPU", "amount": 3}],
}])
assert "sequence" in done, done
answer = c.AllocationsQuery(consumer=consumer, min_sequence=done["sequence"])
assert answer["result"]["allocations"] == [{"provider": host, "class": "VCPU", "amount": 3}], answer
assert c.DeleteProvider(provider=host)["rejection"]["code"] == "provider_in_use"
print("fine")
