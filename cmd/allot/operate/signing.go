package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
)

// maxKeyBytes is the size of the largest key file, in bytes.
const maxKeyBytes = 4096

// keyText returns a key: its argument, or the contents of the file of that name.
func keyText(keyOrFile string) (string, error) {
	if strings.Contains(keyOrFile, "+") && !strings.ContainsAny(keyOrFile, "/\\") {
		return keyOrFile, nil
	}
	text, err := os.ReadFile(keyOrFile)
	if errors.Is(err, os.ErrNotExist) && strings.Contains(keyOrFile, "+") {
		return keyOrFile, nil // base64 has slashes, too
	}
	if err == nil && len(text) > maxKeyBytes {
		err = errors.New("not a key")
	}
	return string(bytes.TrimSpace(text)), err
}

// SigningKey is "allot signing-key": it makes a new key for an operator.
type SigningKey struct {
	Name string `arg:"" help:"The log's name in checkpoints and signatures, such as a domain with a path: witnesses know the log by it, so each ledger needs one of its own."`
	File string `arg:"" help:"File for the private key, which must not exist." type:"path"`
}

// Run writes the private key and prints the public one.
func (c *SigningKey) Run() error {
	private, public, err := note.GenerateKey(rand.Reader, c.Name)
	if err == nil {
		_, err = note.NewSigner(private) // only this call checks the name
	}
	if err != nil {
		return fmt.Errorf("%q cannot name a key: a name must not be empty, or contain blanks or plus signs", c.Name)
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, private)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Println(public)
	return err
}

// Sign is "allot sign": it signs a checkpoint of a log that no server
// uses.
type Sign struct {
	Data       string `help:"Data folder of a server that is not running." type:"existingdir" required:"" placeholder:"DIR"`
	SigningKey string `help:"File with the operator's private key." type:"existingfile" required:"" placeholder:"FILE"`
}

// Run replays the log for its Merkle tree, and stores a signed checkpoint of its
// end.
func (c *Sign) Run(ctx context.Context) (err error) {
	signer, err := cli.LoadSigner(c.SigningKey)
	if err != nil {
		return err
	}
	var last uint64
	log, closeLog, err := sourceFlags{Data: c.Data}.openTo(ctx, &last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	show, end := cli.ProgressBar("replaying")
	r, err := check.Replay(ctx, log, last, "", show, nil)
	end()
	if err != nil {
		return err
	}
	signed, err := r.Checkpoint().Sign(signer)
	if err != nil {
		return err
	}
	kept, err := proof.OpenFolder(filepath.Join(c.Data, datafolder.Checkpoints))
	if err == nil {
		err = kept.Save(r.State.Head().Sequence, signed)
	}
	if err == nil {
		_, err = os.Stdout.Write(signed)
	}
	return err
}
