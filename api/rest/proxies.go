package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// ProxyRange are the addresses of proxies whose headers about the client are believed:
// one address, or all of a prefix such as 10.0.0.0/8.
type ProxyRange struct{ netip.Prefix }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *ProxyRange) UnmarshalText(text []byte) (err error) {
	if address, failed := netip.ParseAddr(string(text)); failed == nil {
		p.Prefix = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen())
		return nil
	}
	if p.Prefix, err = netip.ParsePrefix(string(text)); err != nil {
		return fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/24", text)
	}
	return nil
}

// BelieveProxies has requests that come from a trusted proxy say how their client called
// the server: by Forwarded (RFC 7239), or else by X-Forwarded-Proto, X-Forwarded-Host and
// X-Forwarded-Prefix, as oslo.middleware's enable_proxy_headers_parsing does. Of several
// values the last one counts, which the trusted proxy itself has added. From all other
// addresses the headers mean nothing.
func BelieveProxies(trusted []ProxyRange, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromProxy(trusted, r.RemoteAddr) {
			next.ServeHTTP(w, r)
			return
		}
		called, header := forwarded(r)
		if header != "" {
			http.Error(w, "The header "+header+" of a trusted proxy cannot be read.", http.StatusBadRequest)
			return
		}
		behind := r.WithContext(context.WithValue(r.Context(), calledKey{}, called))
		behind.Host = called.host
		next.ServeHTTP(w, behind)
	})
}

func fromProxy(trusted []ProxyRange, remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, proxies := range trusted {
		if proxies.Contains(from.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

type called struct{ scheme, host, prefix string }

type calledKey struct{}

// forwarded reads the headers of a proxy. If one of them cannot be read, its name is
// returned, too.
func forwarded(r *http.Request) (c called, malformed string) {
	c = called{scheme: schemeOf(r), host: r.Host}
	proto, host, from := last(r, "X-Forwarded-Proto"), last(r, "X-Forwarded-Host"), "X-Forwarded-"
	if element := last(r, "Forwarded"); element != "" {
		from = "Forwarded"
		proto, host = parameterOf(element, "proto"), parameterOf(element, "host")
	}
	if proto != "" {
		if c.scheme = strings.ToLower(proto); c.scheme != "http" && c.scheme != "https" {
			return c, strings.TrimSuffix(from, "-") // of both forms
		}
	}
	if host != "" {
		if parsed, err := url.Parse("//" + host); err != nil || parsed.Host != host || parsed.Hostname() == "" {
			return c, strings.TrimSuffix(from, "-")
		}
		c.host = host
	}
	if prefix := strings.TrimSuffix(last(r, "X-Forwarded-Prefix"), "/"); prefix != "" {
		if parsed, err := url.Parse(prefix); err != nil || parsed.EscapedPath() != prefix ||
			path.Clean(prefix) != prefix || prefix[0] != '/' {
			return c, "X-Forwarded-Prefix"
		}
		c.prefix = prefix
	}
	return c, ""
}

// last is the last of the values of a header that may come several times, as a list.
func last(r *http.Request, header string) string {
	values := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
	return strings.TrimSpace(values[len(values)-1])
}

func parameterOf(element, name string) string {
	for pair := range strings.SplitSeq(element, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(key, name) {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// Base returns the scheme, the host and the path in front of the server's own paths that
// the client used, also where a trusted proxy stands between them.
func Base(r *http.Request) string {
	if c, behind := r.Context().Value(calledKey{}).(called); behind {
		return c.scheme + "://" + c.host + c.prefix
	}
	return schemeOf(r) + "://" + r.Host
}
