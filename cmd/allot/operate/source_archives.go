package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/proof"
)

// isArchiveURL tells the URL of an archive from the name of a file.
func isArchiveURL(text string) bool { return strings.Contains(text, "://") }

// cachedParts is how many bytes of parts a command keeps on the disk.
const cachedParts = 512 << 20

// openArchiveURL opens the log in an archive. Its parts are fetched and verified
// when they are read.
func openArchiveURL(url string) (*source, func() error, error) {
	a, err := archive.OpenURL(url)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "allot-archive-")
	if err != nil {
		return nil, nil, err
	}
	log := archive.NewLog([]*archive.Archive{a}, folder, cachedParts)
	kept := func(ctx context.Context, _ uint64) ([]proof.Kept, error) {
		signed, err := log.Checkpoints(ctx)
		var list []proof.Kept
		for i, one := range signed {
			list = append(list, proof.Kept{Path: fmt.Sprintf("%d of the newest part of %s", i, a), Signed: one})
		}
		return list, err
	}
	return &source{log, kept}, func() error { return os.RemoveAll(folder) }, nil
}

// archivesFlag names archives of one ledger.
type archivesFlag struct {
	From []string `help:"URL of the archive: file:///FOLDER or s3://BUCKET/PREFIX. If it is repeated, what one archive lacks comes from another." required:"" placeholder:"URL"`
}

// open opens the archives, which must be of one ledger.
func (f archivesFlag) open(ctx context.Context) ([]*archive.Archive, error) {
	var list []*archive.Archive
	for _, url := range f.From {
		a, err := archive.OpenURL(url)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	first, err := list[0].Ledger(ctx)
	if err != nil {
		return nil, err
	}
	if first.IsNil() {
		return nil, fmt.Errorf("%w: there is nothing in %s", archive.ErrEmpty, list[0])
	}
	var errs []error
	for _, a := range list {
		errs = append(errs, a.Belongs(ctx, first, false), a.Refresh(ctx))
	}
	return list, errors.Join(errs...)
}
