package natsapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Role says what a user may do.
type Role string

// The roles.
const (
	// RoleSubmitter submits all commands, or those named, and asks queries. If
	// the user is bound to a project, it sees and changes only what belongs to
	// the project.
	RoleSubmitter Role = "submitter"
	// RoleLoader is a submitter without the bound of what it may add to the log in a
	// while: it loads in bulk.
	RoleLoader Role = "loader"
	// RoleAuditor asks queries, follows notices and reads the log's commits to
	// replay them. It changes nothing.
	RoleAuditor Role = "auditor"
	// RoleOperator does everything that clients can do.
	RoleOperator Role = "operator"
)

// User is a user that may connect.
type User struct {
	Name string `yaml:"name"` // in records: nats:NAME
	// Password is the bcrypt hash of the user's password. NKey, instead of it, is
	// the user's public key.
	Password string   `yaml:"password"`
	NKey     string   `yaml:"nkey"`
	Role     Role     `yaml:"role"`
	Commands []string `yaml:"commands"` // commands of a submitter or loader; empty: all
	Project  string   `yaml:"project"`  // project of a submitter or loader; empty: not bound
}

// Users are the users that may connect. They never change.
type Users struct {
	list      []*User
	byAccount map[string]*User
}

// ErrUsers is in every error about a file of users.
var ErrUsers = errors.New("users")

// LoadUsers reads a YAML file: {users: [{name, password or nkey, role, ...}]}.
func LoadUsers(data []byte) (*Users, error) {
	var file struct {
		Users []*User `yaml:"users"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsers, err)
	}
	if len(file.Users) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrUsers)
	}
	u := &Users{list: file.Users, byAccount: make(map[string]*User)}
	keys := make(map[string]bool)
	for i, one := range file.Users {
		if one == nil || one.Name == "" {
			return nil, fmt.Errorf("%w: user %d has no name", ErrUsers, i)
		}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrUsers, one.Name, err)
		}
		if u.byAccount[one.account()] != nil || keys[one.NKey] {
			return nil, fmt.Errorf("%w: %s is given twice", ErrUsers, one.Name)
		}
		u.byAccount[one.account()], keys[one.NKey] = one, one.NKey != ""
	}
	return u, nil
}

// submits reports whether the user may submit commands, and ask what concerns those.
func (u *User) submits() bool { return u.Role == RoleSubmitter || u.Role == RoleLoader }

// isBulk reports whether the user may add to the log without a bound.
func (u *User) isBulk() bool { return u.Role == RoleLoader || u.Role == RoleOperator }

func (u *User) check() error {
	switch u.Role {
	case RoleSubmitter, RoleLoader, RoleAuditor, RoleOperator:
	default:
		return fmt.Errorf("the role %q is none of submitter, loader, auditor and operator", u.Role)
	}
	if !u.submits() && (len(u.Commands) > 0 || u.Project != "") {
		return errors.New("commands and project are for submitters and loaders")
	}
	for _, name := range u.Commands {
		if _, known := commands.Registry[name]; !known {
			return fmt.Errorf("there is no command %q", name)
		}
	}
	if (u.Password == "") == (u.NKey == "") {
		return errors.New("either a password or an nkey is needed")
	}
	if u.NKey != "" && !nkeys.IsValidPublicUserKey(u.NKey) {
		return fmt.Errorf("%q is not the public nkey of a user", u.NKey)
	}
	if u.Password != "" {
		if _, err := bcrypt.Cost([]byte(u.Password)); err != nil {
			return errors.New("the password must be given as its bcrypt hash: allot nats-password prints it")
		}
	}
	return nil
}

const accountPrefix = "client:"

func (u *User) account() string {
	return accountPrefix + strings.ReplaceAll(url.QueryEscape(u.Name), ".", "%2E")
}

// Login is how a user connects, and on which subjects it may publish and listen.
// Restrictions that subjects cannot express are checked with each request.
type Login struct {
	Name, PasswordHash, NKey string
	Account                  string // the user's own, which identifies its requests
	Publish, Subscribe       []string
}

var discovery = []string{"$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>"}

// Logins returns the users' logins for the NATS server.
func (u *Users) Logins() []Login {
	logins := make([]Login, len(u.list))
	for i, one := range u.list {
		l := Login{Name: one.Name, PasswordHash: one.Password, NKey: one.NKey, Account: one.account()}
		l.Publish = append(append(l.Publish, discovery...), wire.QueryPrefix+".>")
		l.Subscribe = []string{"_INBOX.>"}
		switch {
		case one.Role == RoleAuditor:
		case len(one.Commands) == 0:
			l.Publish = append(l.Publish, wire.CommandPrefix+".>", wire.BatchSubject)
		default:
			l.Publish = append(l.Publish, wire.BatchSubject)
			for _, name := range one.Commands {
				l.Publish = append(l.Publish, wire.CommandPrefix+"."+name)
			}
		}
		if one.Project == "" {
			l.Subscribe = append(l.Subscribe, wire.NoticePrefix+".>")
		} else {
			l.Subscribe = append(l.Subscribe, wire.HeartbeatSubject, wire.NoticeSubject(wire.OfProject, one.Project))
		}
		logins[i] = l
	}
	return logins
}

// sender finds the user that sent a request, by its account; nil where there are no users.
func (u *Users) sender(account string) (*User, *wire.Error) {
	if u == nil {
		return nil, nil
	}
	user, known := u.byAccount[account]
	if !known {
		return nil, forbidden("%q is no user", account)
	}
	return user, nil
}

func forbidden(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.ErrorForbidden, Message: clipped(fmt.Sprintf(format, args...))}
}

// maySubmit reports whether the user's role permits a command. The writer checks
// the project.
func (u *User) maySubmit(command string) bool {
	return u == nil || u.Role == RoleOperator ||
		u.submits() && (len(u.Commands) == 0 || slices.Contains(u.Commands, command))
}

// mayHear returns the events of a dry run that a user may hear: what is left of another project's reservation tells
// what that holds.
func (u *User) mayHear(events []ledger.Event) []ledger.Event {
	if u == nil || u.Project == "" {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e ledger.Event) bool {
		left, is := e.(ledger.AllocationsReserved)
		return is && left.Project != u.Project
	})
}

// mayAsk reports whether the user may ask a query, before anything is read.
func (u *User) mayAsk(q wire.Query) *wire.Error {
	rule, known := queryRules[wire.NameOf(q)]
	switch {
	case u == nil:
	case u.submits() && (!known || rule.everybodys && (u.Project == "" || rule.asks == nil)):
		return forbidden("%s may not ask %s", u.Name, wire.NameOf(q))
	case u.Project != "" && rule.asks != nil && !rule.asks(q, u.Project):
		return forbidden("%s is bound to its project: no %s of others", u.Name, wire.NameOf(q))
	}
	return nil
}

// maySee hides entities outside of the user's project: they look missing. From what it may see it
// takes what tells of others.
func (u *User) maySee(q wire.Query, answer any) *wire.Error {
	rule := queryRules[wire.NameOf(q)]
	if u == nil || u.Project == "" {
		return nil
	}
	if rule.sees != nil && !rule.sees(answer, u.Project) {
		return absent(q)
	}
	if rule.hides != nil {
		rule.hides(answer)
	}
	return nil
}

// queryRule says what bound users may learn from a kind of query. A kind without
// a rule is not for submitters.
type queryRule struct {
	everybodys bool                              // it shows all projects: not for submitters, unless bound to what it asks
	asks       func(wire.Query, string) bool     // whether the question is about the project; nil: every question is
	sees       func(answer any, own string) bool // whether the answer belongs to the project; nil: every answer does
	hides      func(answer any)                  // takes out what may be about other projects; nil: nothing is
}

var queryRules = map[string]queryRule{
	"Commits":    {everybodys: true},
	"Rejections": {everybodys: true},
	"Holders":    {asks: func(wire.Query, string) bool { return false }}, // holders are of all projects
	"Chassis":    {asks: func(wire.Query, string) bool { return false }}, // chassis belong to the operator
	"Checkpoint": {},                                                     // it shows only the size and root of the log
	"Capacity":   {},
	"Provider":   {}, // providers and candidates belong to no project
	"Candidates": {asks: func(q wire.Query, _ string) bool { // where consumers are is told to their projects alone
		prefer := q.(*wire.CandidatesQuery).Prefer
		return prefer == nil || len(prefer.Near) == 0
	}},
	"Consumption": {everybodys: true, asks: func(q wire.Query, own string) bool {
		return q.(*wire.ConsumptionQuery).Project == own
	}},
	"Usages": {asks: func(q wire.Query, own string) bool { return q.(*wire.UsagesQuery).Project == own }},
	"History": {asks: func(q wire.Query, own string) bool {
		h := q.(*wire.HistoryQuery)
		return h.Of == wire.OfProject && h.Name == own
	}, hides: func(answer any) { // a record may be about other projects, too, and its sentence tells of all
		if h, ok := answer.(*wire.History); ok && h != nil {
			for i := range h.Entries {
				h.Entries[i].Text = ""
			}
		}
	}},
	"Allocations": {sees: func(answer any, own string) bool {
		held, ok := answer.(*wire.Allocations)
		return ok && held != nil && held.Project == own
	}},
	"Node": {sees: func(answer any, own string) bool {
		n, ok := answer.(*wire.Node)
		return ok && n != nil && (n.Owner == own || n.Lessee == own)
	}},
	"NodeAllocation": {sees: func(answer any, own string) bool {
		a, ok := answer.(*wire.NodeAllocation)
		return ok && a != nil && a.Owner == own
	}},
}

func absent(q wire.Query) *wire.Error {
	switch q := q.(type) {
	case *wire.AllocationsQuery:
		return notFound("consumer %s holds nothing", q.Consumer)
	case *wire.NodeQuery:
		return notFound("there is no such node")
	case *wire.NodeAllocationQuery:
		return notFound("there is no such node allocation")
	}
	return notFound("there is no such thing")
}
