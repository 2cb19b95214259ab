package placementdb

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Dialect is a kind of database, and of its SQL.
type Dialect string

const (
	mySQL    Dialect = "mysql"
	postgres Dialect = "postgresql"
	sqlite   Dialect = "sqlite"
)

// ErrAddress means that a database's address cannot be used.
var ErrAddress = errors.New("the address of the database cannot be used")

// Database is a Placement's database that can be read.
type Database struct {
	kind   Dialect
	name   string // the address without credentials
	secret []string
	open   func() (*sql.DB, error)
	write  func() (*sql.DB, error) // nil: as open
}

func (d *Database) openToWrite() (*sql.DB, error) {
	if d.write != nil {
		return d.write()
	}
	return d.open()
}

// Name returns the address without credentials.
func (d *Database) Name() string { return d.name }

// kindOf reads the scheme, in which SQLAlchemy names the driver, too.
func kindOf(address string) (Dialect, error) {
	scheme, _, _ := strings.Cut(address, ":")
	scheme, _, _ = strings.Cut(strings.ToLower(scheme), "+")
	switch scheme {
	case "mysql", "mariadb":
		return mySQL, nil
	case "postgresql", "postgres":
		return postgres, nil
	case "sqlite":
		return sqlite, nil
	}
	return "", fmt.Errorf("%w: it begins neither with mysql:// nor with postgresql:// nor with the word sqlite", ErrAddress)
}

// Parse reads an address: mysql://USER:PASSWORD@HOST:PORT/NAME,
// postgresql://USER:PASSWORD@HOST:PORT/NAME or sqlite:PATH. SQLAlchemy's forms of
// them are read, too. No error repeats the address, which may hold a password.
func Parse(address string) (*Database, error) {
	of, err := kindOf(address)
	if err != nil {
		return nil, err
	}
	if of == sqlite {
		return parseSQLite(address)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a URL; in a password write @ as %%40, / as %%2F, # as %%23 and %% as %%25", ErrAddress)
	}
	hosted := u.Host != "" || u.Query().Get("unix_socket") != "" || u.Query().Get("host") != ""
	if !hosted || strings.Trim(u.Path, "/") == "" {
		return nil, fmt.Errorf("%w: it needs a host and the name of a database: %s://HOST/NAME", ErrAddress, of)
	}
	d := &Database{kind: of, name: fmt.Sprintf("%s://%s%s", of, u.Host, u.Path)}
	if password, given := u.User.Password(); given && password != "" {
		d.secret = []string{password, url.QueryEscape(password), url.PathEscape(password)}
		if _, raw, found := strings.Cut(u.User.String(), ":"); found {
			d.secret = append(d.secret, raw)
		}
	}
	if of == postgres {
		return d, d.usePostgres(u)
	}
	return d, d.useMySQL(u)
}

func parseSQLite(address string) (*Database, error) {
	_, path, _ := strings.Cut(address, ":")
	if rest, found := strings.CutPrefix(path, "///"); found { // SQLAlchemy: three slashes, then the path
		path = rest
	}
	path, _, _ = strings.Cut(path, "?")
	if path == "" {
		return nil, fmt.Errorf("%w: it names no file: sqlite:PATH", ErrAddress)
	}
	with := func(query string) func() (*sql.DB, error) {
		uri := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}
		return func() (*sql.DB, error) {
			if _, err := os.Stat(path); err != nil {
				return nil, err
			}
			return sql.Open("sqlite", uri.String())
		}
	}
	return &Database{
		kind: sqlite, name: "sqlite:" + path, open: with("mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(10000)"),
		write: with("mode=rw&_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)"),
	}, nil
}

func (d *Database) usePostgres(u *url.URL) error {
	plain := *u
	plain.Scheme = "postgresql"
	cfg, err := pgx.ParseConfig(plain.String())
	if err != nil {
		return d.plain(fmt.Errorf("%w: %w", ErrAddress, err))
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // poolers in between know no prepared statements
	d.open = func() (*sql.DB, error) { return stdlib.OpenDB(*cfg), nil }
	return nil
}

func (d *Database) useMySQL(u *url.URL) error {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if u.Port() == "" {
		cfg.Addr = u.Host + ":3306"
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	for key, values := range u.Query() {
		if err := mySQLOption(cfg, key, values[0]); err != nil {
			return err
		}
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return d.plain(fmt.Errorf("%w: %w", ErrAddress, err))
	}
	d.open = func() (*sql.DB, error) { return sql.OpenDB(connector), nil }
	return nil
}

func mySQLOption(cfg *mysql.Config, key, value string) error {
	switch key {
	case "charset": // texts are read as UTF-8, whatever the tables store
	case "unix_socket":
		cfg.Net, cfg.Addr = "unix", value
	case "ssl_ca":
		pem, err := os.ReadFile(value)
		if err != nil {
			return fmt.Errorf("%w: ssl_ca: %w", ErrAddress, err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%w: ssl_ca: %s has no certificate", ErrAddress, value)
		}
		host, _, _ := strings.Cut(cfg.Addr, ":")
		cfg.TLS = &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}
	case "tls":
		cfg.TLSConfig = value
	default:
		return fmt.Errorf("%w: it has the option %q, and only charset, unix_socket, ssl_ca and tls are known", ErrAddress, key)
	}
	return nil
}

func (d *Database) plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range d.secret {
		text = strings.ReplaceAll(text, secret, "******")
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text) // the original would show it when it is unwrapped
}
