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

// natsPasswordCommand is "allot nats-password": the hash for a file of users.
type natsPasswordCommand struct{}

// minPassword is the shortest password that is hashed.
const minPassword = 8

// Run hashes the password that it reads from its input.
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
