package claims

import (
	"context"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// FromLog reads records from a log, for Options.Records.
func FromLog(log ledger.Log) func(context.Context, ledger.Address) (*ledger.Record, error) {
	return func(ctx context.Context, at ledger.Address) (found *ledger.Record, err error) {
		err = log.Read(ctx, at.Sequence, at.Sequence, func(e ledger.Entry) error {
			commit, err := ledger.DecodeCommit(e.Data)
			if err == nil && at.Index < len(commit.Records) {
				found = &commit.Records[at.Index]
			}
			return err
		})
		if err == nil && found == nil {
			err = fmt.Errorf("claims: the log has no record %s", at)
		}
		return found, err
	}
}
