package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementapi"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
)

// compareCommand is "allot-migrate compare": it compares a running server with something else.
type compareCommand struct {
	Placement comparePlacementCommand `cmd:"" help:"Compare a running server with a Placement: its database or its REST API." example:"compare placement --url 127.0.0.1:8778 --with http://127.0.0.1:8779"`
}

type comparePlacementCommand struct {
	Server         cli.Server `embed:""`
	placementLogin `embed:""`
	candidateFlags `embed:""`
	With           string `help:"The Placement: an address as allot-migrate import placement takes. One with a password belongs in the environment, or in a file." env:"ALLOT_PLACEMENT" placeholder:"ADDRESS"`
	WithFile       string `help:"File with the address, or Placement's own placement.conf." env:"ALLOT_PLACEMENT_FILE" type:"existingfile" placeholder:"FILE"`
	JSON           bool   `name:"json" help:"Print one JSON object per difference."`
}

// errDifferent ends the command with a failure, so that scripts see it.
var errDifferent = errors.New("the server and the Placement are not equal")

// Run reads both and prints the differences.
func (c *comparePlacementCommand) Run(ctx context.Context) error {
	address, err := placementAddress.given("--with", c.With, c.WithFile)
	if err != nil {
		return err
	}
	other, err := c.contentsAt(address)
	if err != nil {
		return err
	}
	server, err := sourceFrom(c.Server)
	if err != nil {
		return err
	}
	left, right, err := bothPlans(ctx, other, contentsFrom(c.Server))
	if err != nil {
		return err
	}
	for _, usage := range left.Unseen {
		fmt.Fprintf(os.Stderr, "%s: the REST API does not show allocations whose consumers have no rows. Allot may hold "+
			"them from the database: compare with that, or make the rows with placement-manage db online_data_migrations\n", usage)
	}
	differences := contents.Compare(left, right)
	asked, found, err := c.candidates(ctx, address, left, server)
	if err != nil {
		return err
	}
	differences = append(differences, found...)
	if err := c.print(os.Stdout, differences); err != nil {
		return err
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w: %d differences", errDifferent, len(differences))
	}
	if !c.JSON {
		fmt.Printf("no differences: %d providers, %d consumers, and candidates (requests: %d); "+
			"generations of consumers and times are not compared\n", len(left.Providers), len(left.Consumers), asked)
	}
	return nil
}

// candidates compares allocation candidates, if the Placement's REST API is known.
func (c *comparePlacementCommand) candidates(
	ctx context.Context, address string, theirs *contents.Plan, server *placementapi.Source,
) (asked int, found []contents.Difference, err error) {
	if !isREST(address) {
		if address = c.Candidates; address == "" {
			if c.Flavours != "" {
				return 0, nil, errors.New("a database answers no requests for candidates: name Placement's REST API with --candidates")
			}
			return 0, nil, nil
		}
	}
	other, err := c.source(address)
	if err != nil {
		return 0, nil, err
	}
	queries, err := c.queries(theirs)
	if err != nil || len(queries) == 0 {
		return 0, nil, err
	}
	found, err = c.compare(ctx, other, server, queries)
	return len(queries), found, err
}

// bothPlans reads two sides at the same time, so that little changes in between.
func bothPlans(ctx context.Context, one, other reader) (left, right *contents.Plan, err error) {
	group, within := errgroup.WithContext(ctx)
	group.Go(func() (err error) { left, err = planOf(within, one); return err })
	group.Go(func() (err error) { right, err = planOf(within, other); return err })
	return left, right, group.Wait()
}

// planOf reads contents by the rules of an import. What it would refuse cannot be compared.
func planOf(ctx context.Context, read reader) (*contents.Plan, error) {
	rows, err := read(ctx)
	if err != nil {
		return nil, err
	}
	return planFrom(rows)
}

// planFrom is planOf for rows that were read.
func planFrom(rows *contents.Rows) (*contents.Plan, error) {
	var refusing []string
	for _, rule := range contents.Rules {
		if rule.Effect == contents.Refused {
			refusing = append(refusing, rule.Name)
		}
	}
	plan, _, err := contents.Make(rows, refusing...)
	return plan, err
}

// print prints names as the tables of allot do: with what a terminal obeys escaped.
func (c *comparePlacementCommand) print(to io.Writer, differences []contents.Difference) error {
	for _, d := range differences {
		line := fmt.Sprintf("%s, %s: Placement %s, Allot %s", d.What, cmp.Or(d.Field, "itself"),
			cmp.Or(d.Left, "nothing"), cmp.Or(d.Right, "nothing"))
		if c.JSON {
			var encoded bytes.Buffer
			if err := ledger.PlainEncoder(&encoded).Encode(d); err != nil {
				return err
			}
			clean, err := cli.CleanJSON(encoded.Bytes())
			if err != nil {
				return err
			}
			line = string(clean)
		}
		if _, err := fmt.Fprintln(to, cli.Clean(line)); err != nil {
			return err
		}
	}
	return nil
}

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
