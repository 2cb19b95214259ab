package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// RefuseSecrets refuses secrets among the arguments of a command, which every
// user of the machine can read: values of flags with the tag "secret", unless
// they are the default, and URLs with a password in them.
func RefuseSecrets(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		if step.Flag == nil || step.Resolved {
			continue
		}
		flag := step.Flag
		if !IsSecret(flag, parsed.FlagValue(flag)) {
			continue
		}
		return fmt.Errorf("--%s holds a secret, and every user of this machine can read the arguments of a command: give it as %s "+
			"in the environment, or as %q in the file of --config", flag.Name, strings.Join(flag.Envs, " or "), flag.Name+": ...")
	}
	return nil
}

// IsSecret reports whether a flag with a value holds a secret.
func IsSecret(flag *kong.Flag, value any) bool {
	if flag.Tag.Has("secret") {
		return fmt.Sprint(value) != flag.Default
	}
	list, isList := value.([]string)
	if !isList {
		list = []string{fmt.Sprint(value)}
	}
	return slices.ContainsFunc(list, hasPassword)
}

// hasPassword reports whether a URL holds a password. A URL that cannot be parsed
// often has one with characters that should be escaped.
func hasPassword(text string) bool {
	_, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return false
	}
	target, err := url.Parse(text)
	if err != nil {
		user, _, _ := strings.Cut(rest, "@")
		return strings.Contains(user, ":") && user != rest
	}
	_, has := target.User.Password()
	return has || target.Query().Has("password")
}
