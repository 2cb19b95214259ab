package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"
)

// refuseSecrets refuses secrets among the arguments of a command, which every
// user of the machine can read: values of flags with the tag "secret", unless
// they are the default, and URLs with a password in them.
func refuseSecrets(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		if step.Flag == nil || step.Resolved {
			continue
		}
		flag := step.Flag
		if !isSecret(flag, parsed.FlagValue(flag)) {
			continue
		}
		return fmt.Errorf("--%s holds a secret, and every user of this machine can read the arguments of a command: give it as %s "+
			"in the environment, or as %q in the file of --config", flag.Name, strings.Join(flag.Envs, " or "), flag.Name+": ...")
	}
	return nil
}

func isSecret(flag *kong.Flag, value any) bool {
	if flag.Tag.Has("secret") {
		return fmt.Sprint(value) != flag.Default
	}
	list, isList := value.([]string)
	if !isList {
		list = []string{fmt.Sprint(value)}
	}
	for _, text := range list {
		if target, err := url.Parse(text); err == nil && target.User != nil {
			if _, has := target.User.Password(); has {
				return true
			}
		}
	}
	return false
}
