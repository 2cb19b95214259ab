package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// natsPasswordCommand is "allot nats-password": it prints the hash of a password,
// for a file of users.
type natsPasswordCommand struct{}

// minPassword is the length of the shortest password that is accepted, in
// characters.
const minPassword = 8

// Run hashes the password that it reads from standard input.
func (natsPasswordCommand) Run(context.Context) error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	password := strings.TrimRight(line, "\r\n")
	if password == "" && err != nil {
		return errors.New("give the password on standard input")
	}
	if len(password) < minPassword {
		return fmt.Errorf("the password is shorter than %d characters", minPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return err
	}
	fmt.Println(string(hash))
	return nil
}
