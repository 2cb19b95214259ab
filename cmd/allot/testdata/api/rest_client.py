"""A client of the REST port that is made from /openapi.json: one method an operation."""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request


class Client:
    def __init__(self, url, token):
        self.url, self.token = url, token
        self.document = json.load(urllib.request.urlopen(url + "/openapi.json"))
        for path, item in self.document["paths"].items():
            for method in item.keys() - {"parameters"}:
                given = [self._part(p) for p in item.get("parameters", []) + item[method].get("parameters", [])]
                setattr(self, item[method]["operationId"], self._call(method, path, given))

    def _part(self, part):
        for name in part.get("$ref", "#").split("/")[1:]:
            part = (self.document if name == "components" else part)[name]
        return part

    def _call(self, method, path, parameters):
        def call(body=None, **values):
            headers, query, target = {"X-Auth-Token": self.token, "Content-Type": "application/json"}, {}, path
            for p in parameters:
                value = values.pop(p["name"].replace("-", "_").lower(), None)
                if value is None:
                    continue
                if p["in"] == "path":
                    target = target.replace("{%s}" % p["name"], urllib.parse.quote(str(value), safe=""))
                elif p["in"] == "query":
                    query[p["name"]] = value
                else:
                    headers[p["name"]] = str(value)
            if values:
                raise TypeError("unknown parameters: %s" % ", ".join(values))
            url = self.url + target + ("?" + urllib.parse.urlencode(query) if query else "")
            data = None if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method.upper())) as answer:
                text = answer.read().decode()
                return json.loads(text) if "json" in answer.headers.get("Content-Type", "") and text else text
        return call
