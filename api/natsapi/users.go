package natsapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
)

// Role says what a user may do.
type Role string

// The roles.
const (
	// RoleSubmitter submits commands, all or those named, and asks queries. Bound
	// to a project, it deals with what is the project's only.
	RoleSubmitter Role = "submitter"
	// RoleAuditor asks queries, follows notices and reads the log's commits to
	// replay them. It changes nothing.
	RoleAuditor Role = "auditor"
	// RoleOperator does everything that clients can do.
	RoleOperator Role = "operator"
)

// User is one that may connect.
type User struct {
	Name string `yaml:"name"` // in records: nats:NAME
	// Password is its bcrypt hash; NKey, instead, the public key of one that
	// signs in.
	Password string   `yaml:"password"`
	NKey     string   `yaml:"nkey"`
	Role     Role     `yaml:"role"`
	Commands []string `yaml:"commands"` // of submitters; none: all
	Project  string   `yaml:"project"`  // of submitters; empty: any
}

// Users are those that may connect. It never changes.
type Users struct {
	list    []*User
	byLogin map[string]*User // what the NATS server calls them
}

// ErrUsers wraps whatever is wrong with a file of users.
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
	u := &Users{list: file.Users, byLogin: make(map[string]*User)}
	names := make(map[string]bool)
	for i, one := range file.Users {
		if one == nil || one.Name == "" {
			return nil, fmt.Errorf("%w: user %d has no name", ErrUsers, i)
		}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrUsers, one.Name, err)
		}
		if names[one.Name] || u.byLogin[one.login()] != nil {
			return nil, fmt.Errorf("%w: %s is given twice", ErrUsers, one.Name)
		}
		names[one.Name], u.byLogin[one.login()] = true, one
	}
	return u, nil
}

func (u *User) check() error {
	switch u.Role {
	case RoleSubmitter, RoleAuditor, RoleOperator:
	default:
		return fmt.Errorf("the role %q is none of submitter, auditor and operator", u.Role)
	}
	if u.Role != RoleSubmitter && (len(u.Commands) > 0 || u.Project != "") {
		return errors.New("commands and project are for submitters")
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

// login is what the NATS server calls the user.
func (u *User) login() string {
	if u.NKey != "" {
		return u.NKey
	}
	return u.Name
}

// Login is how a user connects, and on which subjects it may publish and
// listen. What subjects cannot say is checked with each request.
type Login struct {
	Name, PasswordHash, NKey string
	Publish, Subscribe       []string
}

var discovery = []string{"$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>"}

// Services are the subjects on which the service and its discovery answer.
func Services() []string {
	return []string{wire.CommandPrefix + ".>", wire.QueryPrefix + ".>", wire.BatchSubject, "$SRV.>"}
}

// Logins are the users for the NATS server.
func (u *Users) Logins() []Login {
	logins := make([]Login, len(u.list))
	for i, one := range u.list {
		l := Login{Name: one.Name, PasswordHash: one.Password, NKey: one.NKey}
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

// infoHeader is where the NATS server says who sent a request, in place of
// whatever its sender put there.
const infoHeader = "Nats-Request-Info"

// sender finds out who sent a request; nil, where there are no users.
func (s *Service) sender(req micro.Request) (*User, *wire.Error) {
	if s.users == nil {
		return nil, nil
	}
	var info struct {
		User string `json:"user"`
	}
	given := req.Headers().Values(infoHeader)
	if len(given) != 1 || json.Unmarshal([]byte(given[0]), &info) != nil {
		return nil, forbidden("nobody knows who sent this")
	}
	user, known := s.users.byLogin[info.User]
	if !known {
		return nil, forbidden("%q is no user", info.User)
	}
	return user, nil
}

func forbidden(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.ErrorForbidden, Message: fmt.Sprintf(format, args...)}
}

// maySubmit reports whether the user's role allows a command; the writer
// checks its project.
func (u *User) maySubmit(command string) bool {
	return u == nil || u.Role == RoleOperator || u.Role == RoleSubmitter && (len(u.Commands) == 0 || slices.Contains(u.Commands, command))
}

// mayRead reports whether the user's role allows a query at all. The log's
// commits hold everybody's records, and so do rejected commands.
func (u *User) mayRead(q wire.Query) bool {
	_, everybodys := q.(*wire.CommitsQuery)
	_, rejections := q.(*wire.RejectionsQuery)
	return u == nil || !everybodys && !rejections || u.Role != RoleSubmitter
}

// mayAsk refuses queries about what is not the user's project's.
func (u *User) mayAsk(q wire.Query, answer any) *wire.Error {
	if u == nil || u.Project == "" {
		return nil
	}
	mine := true
	switch q := q.(type) {
	case *wire.UsagesQuery:
		mine = q.Project == u.Project
	case *wire.HistoryQuery:
		mine = q.Of == wire.OfProject && q.Name == u.Project
	case *wire.HoldersQuery:
		mine = false // they are of all projects
	case *wire.RejectionsQuery:
		mine = q.Project == u.Project
	case *wire.AllocationsQuery:
		held, found := answer.(*wire.Allocations)
		if found && held != nil && held.Project != u.Project {
			return notFound("consumer %s holds nothing", q.Consumer)
		}
	case *wire.NodeAllocationQuery:
		a, found := answer.(*wire.NodeAllocation)
		if found && a != nil && a.Owner != u.Project {
			return notFound("there is no such node allocation")
		}
	}
	if !mine {
		return forbidden("%s is bound to its project: no %s of others", u.Name, q.QueryName())
	}
	return nil
}
