package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// ConfigFile resolves flags from the YAML file that --config or ALLOT_CONFIG names. A key that is no flag is an
// error; otherwise a misspelt key would silently leave the default.
type ConfigFile struct {
	path   string
	values map[string]any
	loaded bool
	failed error // why the file could not be loaded
}

// ConfigOf returns a file with some values, for tests.
func ConfigOf(values map[string]any) *ConfigFile { return &ConfigFile{values: values, loaded: true} }

// Validate implements kong.Resolver.
func (c *ConfigFile) Validate(app *kong.Application) error {
	if err := c.load(); err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, command := range app.Leaves(false) {
		for _, flags := range command.AllFlags(false) { // with those of the commands above it
			for _, f := range flags {
				known[f.Name] = true
			}
		}
	}
	for key := range c.values {
		if !known[key] {
			return fmt.Errorf("--config %s: %q is no flag: --help-all lists those of a command", c.path, key)
		}
	}
	return nil
}

// Resolve implements kong.Resolver.
func (c *ConfigFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if c.load() != nil {
		return nil, nil // Validate reports the error; an error from here would seem to be about this flag.
	}
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil // The environment wins; kong has read it already.
		}
	}
	if value, ok := c.values[flag.Name]; ok {
		if list, isList := value.([]any); isList {
			return list, nil
		}
		return fmt.Sprint(value), nil
	}
	return nil, nil
}

// load finds the file before kong has parsed the flags, because the file resolves them.
func (c *ConfigFile) load() error {
	if !c.loaded {
		c.loaded, c.failed = true, c.read()
	}
	return c.failed
}

func (c *ConfigFile) read() error {
	c.path = os.Getenv("ALLOT_CONFIG")
	for i, arg := range os.Args {
		if arg == "--config" && i+1 < len(os.Args) {
			c.path = os.Args[i+1]
		} else if value, found := bytes.CutPrefix([]byte(arg), []byte("--config=")); found {
			c.path = string(value)
		}
	}
	if c.path == "" {
		return nil
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&c.values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config %s: %w", c.path, err)
	}
	return nil
}
