package memlog_test

import (
	"testing"

	"github.com/allot-project/allot/ledger/logtest"
	"github.com/allot-project/allot/ledger/memlog"
)

func TestLog(t *testing.T) {
	log := &memlog.Log{}
	logtest.Run(t, log, log)
}
