package embedded

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// logins decides who may connect, and with which permissions. It implements
// server.Authentication.
type logins struct {
	secret    string // of this process's own connections
	own       map[string]*server.Permissions
	cfg       Config
	passwords map[string]*login // by name
	keys      map[string]*login // by public key
	accounts  *accounts
	throttle  *passwordThrottle
}

type login struct {
	user    User
	account *server.Account
}

func newLogins(cfg Config) *logins {
	return &logins{
		secret: rand.Text() + rand.Text(), own: ownPermissions(cfg), cfg: cfg, throttle: newPasswordThrottle(),
		passwords: make(map[string]*login), keys: make(map[string]*login),
	}
}

// open makes the accounts. No client has connected yet.
func (l *logins) open(ns *server.Server) (err error) {
	if l.accounts, err = openAccounts(ns, l.cfg); err != nil {
		return err
	}
	for _, u := range l.cfg.Users {
		account, err := l.accounts.add(u.Account)
		if err != nil {
			return err
		}
		one := &login{user: u, account: account}
		if u.NKey != "" {
			l.keys[u.NKey] = one
		} else {
			l.passwords[u.Name] = one
		}
	}
	return nil
}

func (l *logins) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return false
	}
	given := c.GetOpts()
	if permissions := l.own[given.Username]; permissions != nil &&
		subtle.ConstantTimeCompare([]byte(given.Password), []byte(l.secret)) == 1 {
		account := l.accounts.ns.GlobalAccount()
		if given.Username == systemRole {
			account = l.accounts.ns.SystemAccount()
		}
		c.RegisterUser(&server.User{Username: given.Username, Permissions: permissions, Account: account})
		return true
	}
	if shut(l.cfg) {
		return false // only the process's own connections
	}
	if len(l.cfg.Users) == 0 {
		return l.admitAnonymous(c, given)
	}
	var one *login
	if given.Nkey != "" {
		one = l.signedIn(c, given)
	} else {
		one = l.knowsPassword(c, given)
	}
	if one == nil {
		return false
	}
	c.RegisterUser(&server.User{Username: one.user.Name, Permissions: permissionsOf(one.user), Account: one.account})
	return true
}

// admitAnonymous gives a connection without credentials an account of its own.
func (l *logins) admitAnonymous(c server.ClientAuthentication, given *server.ClientOpts) bool {
	if given.Username != "" || given.Password != "" || given.Nkey != "" || given.Token != "" || given.JWT != "" {
		return false // a client with a name does not belong here
	}
	err := l.accounts.seat(func(account *server.Account) {
		c.RegisterUser(&server.User{Permissions: permissionsOf(anonymous(l.cfg)), Account: account})
	})
	if err != nil {
		l.cfg.Logger.Warn("a NATS client cannot connect", "error", err)
	}
	return err == nil
}

// signedIn finds the user whose key signed the server's challenge.
func (l *logins) signedIn(c server.ClientAuthentication, given *server.ClientOpts) *login {
	one := l.keys[given.Nkey]
	if one == nil {
		return nil
	}
	signature, err := base64.RawURLEncoding.DecodeString(given.Sig)
	if err != nil {
		if signature, err = base64.StdEncoding.DecodeString(given.Sig); err != nil {
			return nil
		}
	}
	key, err := nkeys.FromPublicKey(given.Nkey)
	if err != nil || key.Verify(c.GetNonce(), signature) != nil {
		return nil
	}
	return one
}

// knowsPassword finds the user whose password was given. Unknown names take as
// long as wrong passwords.
func (l *logins) knowsPassword(c server.ClientAuthentication, given *server.ClientOpts) *login {
	if given.Username == "" {
		return nil
	}
	hash := ""
	one := l.passwords[given.Username]
	if one != nil {
		hash = one.user.PasswordHash
	}
	if !l.throttle.pass(place(c.RemoteAddress()), given.Username, hash, given.Password) {
		return nil
	}
	return one
}

// place is where a client is: in a network that is usually given to one customer, all
// addresses are one.
func place(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if prefix, err := ip.Prefix(64); err == nil && ip.Is6() {
		return prefix.String()
	}
	return ip.String()
}
