package embedded

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/jetstream"
)

// Accounts are separate: a message in one does not exist in another. The process
// has the server's own account, with the log in it. Every client has an account
// of its own: each user has one, and where there are none, each connection has
// one. A client's account imports the services and streams that it may use. So a
// client's subjects, including any reply subject that it names, are its own:
// answers go to the account that asked, and nowhere else. And the subject on which
// a request comes here says whose it is, which nothing in the message can change.

// anonymousAccount begins the names of the accounts of connections without
// credentials; a number follows.
const anonymousAccount = "anonymous:"

// anonymousOf keeps the accounts of two servers of a cluster apart, because servers take
// accounts of the same name for one account.
func anonymousOf(cfg Config) string {
	if cfg.Cluster == nil {
		return anonymousAccount
	}
	return anonymousAccount + cfg.Cluster.Member + ":"
}

// ownAccount is the account of the process, which NATS gives that name.
const ownAccount = "$G"

// answerWithin is the time after which the server forgets where an answer goes.
// Allot answers every request sooner.
const answerWithin = 45 * time.Second

// replySubjects are the subjects with which the server replaces clients' own
// reply subjects when a request passes from account to account.
const replySubjects = "_R_.>"

func allow(subjects ...string) *server.SubjectPermission {
	return &server.SubjectPermission{Allow: subjects}
}

// nothing is no subject at all, because an empty list would mean every subject.
var nothing = &server.SubjectPermission{Deny: []string{">"}}

// What this process's own connections are for.
const (
	logRole     = "log"
	doorRole    = "door"
	peerRole    = "replica"
	noticesRole = "notices"
	systemRole  = "system" // in the system's account
)

// nameOf is what such a connection is called.
func nameOf(role string) string { return "allot " + role }

// ownPermissions are the permissions of this process's connections, by their roles.
func ownPermissions(cfg Config) map[string]*server.Permissions {
	come := slices.Clone(cfg.Services) // the library listens there, too, where nothing comes
	for _, service := range cfg.Services {
		come = append(come, cfg.comesAs("*", service))
	}
	return map[string]*server.Permissions{
		logRole: {
			Publish:   allow(jetstream.Subject, jetstream.Subject+".>", jetstream.RejectedSubject, jetstream.ValuesSubject, "$JS.API.>"),
			Subscribe: allow("_INBOX.>", jetstream.ElectedSubject+"*"),
		},
		doorRole:    {Publish: allow(replySubjects), Subscribe: orNothing(come)},
		peerRole:    {Publish: allow(ClusterSubjects, "_INBOX.>"), Subscribe: allow(ClusterSubjects, "_INBOX.>")},
		noticesRole: {Publish: orNothing(cfg.Streams), Subscribe: nothing},
		systemRole:  {Publish: allow(server.JSApiRemoveServer), Subscribe: allow("_INBOX.>")},
	}
}

func orNothing(subjects []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return nothing
	}
	return allow(subjects...)
}

// permissionsOf returns the permissions of a user in its own account.
func permissionsOf(u User) *server.Permissions {
	return &server.Permissions{Publish: orNothing(u.Publish), Subscribe: orNothing(u.Subscribe)}
}

// anonymous returns the permission to use everything that clients can be given.
func anonymous(cfg Config) User {
	return User{Publish: cfg.Services, Subscribe: append([]string{"_INBOX.>"}, cfg.Streams...)}
}

type accounts struct {
	ns  *server.Server
	cfg Config

	mu    sync.Mutex
	spare []*server.Account // of connections without credentials, in use or not; guarded by mu
	next  int               // where the search for an unused one begins; guarded by mu
}

// openAccounts exports from the process's own account what clients may import.
func openAccounts(ns *server.Server, cfg Config) (*accounts, error) {
	own := ns.GlobalAccount()
	for _, service := range cfg.Services {
		subject := cfg.comesAs("*", service)
		err := own.AddServiceExport(subject, nil)
		if err == nil {
			err = own.SetServiceExportResponseThreshold(subject, answerWithin)
		}
		if err != nil {
			return nil, fmt.Errorf("embedded: export %s: %w", subject, err)
		}
	}
	for _, subject := range cfg.Streams {
		if err := own.AddStreamExport(subject, nil); err != nil {
			return nil, fmt.Errorf("embedded: export %s: %w", subject, err)
		}
	}
	return &accounts{ns: ns, cfg: cfg}, nil
}

// limit bounds an account's connections, their subscriptions and their messages. The
// server's own bound of messages is for everybody, and must let the log through.
func (a *accounts) limit(account *server.Account) {
	limits := jwt.NewAccountClaims("a client") // the name is not read; everything else is without limit
	limits.Limits.Payload = DefaultPayload
	limits.Limits.Conn = userConnections
	limits.Limits.Subs = maxSubscriptions
	a.ns.UpdateAccountClaims(account, limits)
}

// add makes an account that can reach the services and hear the streams.
func (a *accounts) add(name string) (*server.Account, error) {
	account, err := a.ns.RegisterAccount(name)
	if err != nil {
		return nil, fmt.Errorf("embedded: account %s: %w", name, err)
	}
	a.limit(account) // takes away imports that are there already
	own := a.ns.GlobalAccount()
	for _, subject := range a.cfg.Services {
		if err := account.AddServiceImport(own, subject, a.cfg.comesAs(name, subject)); err != nil {
			return nil, fmt.Errorf("embedded: import %s: %w", subject, err)
		}
	}
	for _, subject := range a.cfg.Streams {
		if err := account.AddStreamImport(own, subject, ""); err != nil {
			return nil, fmt.Errorf("embedded: import %s: %w", subject, err)
		}
	}
	return account, nil
}

// seat calls take with an account that no connection uses. It picks the one that has been
// unused for longest, so that messages that are still on their way to its last user reach
// no other one. It fails if all are in use.
func (a *accounts) seat(take func(*server.Account)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.spare) < maxAnonymous {
		account, err := a.add(fmt.Sprint(anonymousOf(a.cfg), len(a.spare)+1))
		if err != nil {
			return err
		}
		a.spare = append(a.spare, account)
		take(account)
		return nil
	}
	for range a.spare {
		account := a.spare[a.next]
		a.next = (a.next + 1) % len(a.spare)
		if account.NumLocalConnections() == 0 {
			take(account)
			return nil
		}
	}
	return errFull
}

var errFull = errors.New("embedded: too many connections")
