package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementapi"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// candidateFlags say which allocation candidates are compared.
type candidateFlags struct {
	Samples    int    `help:"Compare the allocation candidates of so many requests for what consumers hold. Only a REST API answers them; 0: none." default:"10"`
	Flavours   string `help:"File with requests whose allocation candidates are compared, too: a query a line, such as resources=VCPU:1&required=HW_CPU_X86_AVX2." type:"existingfile" placeholder:"FILE"`
	Candidates string `help:"REST API of the Placement that answers requests for allocation candidates, if --with is its database." placeholder:"URL"`
}

// queries are the requests that are compared, beside those for what the Placement has.
func (f *candidateFlags) queries(theirs *contents.Plan) ([]string, error) {
	var given []string
	if f.Flavours != "" {
		file, err := os.Open(f.Flavours)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			line := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "?")
			if line != "" && !strings.HasPrefix(line, "#") {
				given = append(given, line)
			}
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			return nil, fmt.Errorf("--flavours %s: %w", f.Flavours, err)
		}
	}
	return append(given, theirs.Flavours(f.Samples)...), nil
}

// compare asks both sides for the candidates of each request.
func (f *candidateFlags) compare(
	ctx context.Context, left, right *placementapi.Source, queries []string,
) (found []contents.Difference, err error) {
	if err := placementapi.Same(ctx, left, right); err != nil {
		return nil, err
	}
	show, end := cli.ProgressBar("candidates")
	defer end()
	for i, query := range queries {
		a, err := left.Candidates(ctx, query)
		if err != nil {
			return nil, err
		}
		b, err := right.Candidates(ctx, query)
		if err != nil {
			return nil, err
		}
		found = append(found, contents.CompareCandidates(query, a, b)...)
		show(uint64(i+1), uint64(len(queries)))
	}
	return found, nil
}
