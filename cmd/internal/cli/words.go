package cli

import (
	"regexp"
	"sync"
)

// Words says an error for people: what libraries and the kernel say becomes a sentence that names the next
// step, and the names of packages are left out.
func Words(err error) string {
	text := err.Error()
	for _, one := range said() {
		text = one.library.ReplaceAllString(text, one.words)
	}
	return text
}

// onFile is how errors of package os begin: with a call, and a path.
const onFile = `\b(?:open|openat|stat|lstat|mkdir|read|readdirent|write|unlink|unlinkat|chmod|truncate) (/[^:]*|[^\s:]*): `

// said has what libraries say, and what is said instead, in the order in which they are replaced.
var said = sync.OnceValue(func() (list []replacement) {
	for _, one := range [][2]string{
		{`\bmkdir : no such file or directory`, "its name is empty"},
		{onFile + `no such file or directory`, "there is no $1"},
		{onFile + `(?:permission denied|operation not permitted)`, "this user has no permission for $1: run this as its owner, or change its owner or mode"},
		{onFile + `file exists`, "$1 exists: name another file"},
		{onFile + `not a directory`, "$1 is a file, or below one: name a folder"},
		{onFile + `is a directory`, "$1 is a folder: name a file"},
		{onFile + `no space left on device`, "the disk of $1 is full: make room"},
		{`listen tcp\S* \S+: bind: address already in use`, "another process, or another flag, has this address: name another one"},
		{`listen tcp\S* \S+: bind: cannot assign requested address`, "this machine has no such address: name one of its own"},
		{`listen tcp\S* \S+: bind: permission denied`, "this user may not use this port: name one above 1023"},
		{`listen tcp\S*: address (\S*): invalid port|listen tcp\S*: lookup tcp/(\S*): .*`, "$1$2 is no port: ports are numbers up to 65535"},
		{`listen tcp\S*: address \S*: .*`, "it is not HOST:PORT"},
		{`listen tcp\S*: lookup (\S+?)( on \S+)?: no such host`, "no machine has the name $1"},
		{`dial tcp\S* (\S+): connect: connection refused`, "nothing listens there; is the server running?"},
		{`dial tcp\S*: lookup (\S+?)( on \S+)?: no such host`, "no machine has the name $1"},
		{`(read|write|dial) tcp\S* \S+: i/o timeout|context deadline exceeded`, "no answer came in time"},
		{`nats: no servers available for connection`, "no NATS server answers there; is it running, and is the address right?"},
		{`(?i)nats: authorization violation`, "the NATS server does not know this user, or the password is another one"},
		{`(?i)nats: permissions violation: permissions violation for (\w+) to ("[^"]*").*`, "this user of NATS has no right: $1 to $2"},
		{`tls: private key does not match public key`, "the key belongs to another certificate"},
		{`tls: failed to find any PEM data in (\S+) input`, "the file of the $1 has nothing in PEM"},
		{`cannot validate certificate for (\S+) because .*?SANs|certificate is valid for [^()]*, not (\S+?)(\)|$)`, "it is not for $1$2$3"},
		{`JSON does not validate: (.*?) +Failed validating .* On instance\['(\w+)'\].*`, "$2: $1"},
		{`does not match '\^\[A-Z0-9_\]\+\$'`, "is not made of A-Z, 0-9 and _"},
		{`: \d+ fields, (unexpected )?EOF`, ""},
		{`: malformed (verifier|signer) id`, ""},
		{`slog: level string ("[^"]*"): unknown name`, "$1 is none of debug, info, warn and error"},
		{`expected .*but got "EOL" \(<EOL>\)`, "it needs a value"},
		{`expected duration but got ("[^"]*").*`, "$1 is no duration such as 30s, 5m or 1h"},
		{`expected a valid \d+ bit u?int but got ("[^"]*")`, "$1 is no whole number"},
		{`yaml: line (\d+): [^\n]*`, "line $1 is not YAML"},
		{`yaml: unmarshal errors:\s+line (\d+): [^\n]*`, "line $1 does not have the form that it should"},
		{`invalid character [^;\n]*|unexpected end of JSON input`, "it is not JSON"},
		{`(^|: |\()((archive|bucket|embedded|ledger|nats|policy|slog|tls|users|x509|yaml): )+`, "$1"},
	} {
		list = append(list, replacement{regexp.MustCompile(one[0]), one[1]})
	}
	return list
})

// replacement is what is said in the place of what a library says.
type replacement struct {
	library *regexp.Regexp
	words   string
}
