// Command readtiles reads a log's tiles with filippo.io/torchwood, which shares no code with
// Allot: it demands that a policy (c2sp.org/tlog-policy) is satisfied by the checkpoint,
// checks every record against it, and prints how many there are. With the size and the
// root (base64) of an earlier tree it checks that the log has grown from it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

// withToken sends a token with each request.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Auth-Token", string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
	if err := read(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// read takes the URL, a token, the policy's text and, if any, an earlier size and root.
func read(ctx context.Context, arguments []string) error {
	client := &http.Client{Transport: withToken(arguments[1])}
	tiles, err := torchwood.NewTileFetcher(arguments[0], torchwood.WithHTTPClient(client))
	if err != nil {
		return err
	}
	signed, err := tiles.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return err
	}
	policy, err := torchwood.ParsePolicy([]byte(arguments[2]))
	if err != nil {
		return err
	}
	checkpoint, _, err := torchwood.VerifyCheckpoint(signed, policy)
	if err != nil {
		return err
	}
	if len(arguments) > 4 {
		if err := grown(ctx, tiles, checkpoint.Tree, arguments[3], arguments[4]); err != nil {
			return err
		}
	}
	reader, err := torchwood.NewClient(tiles)
	if err != nil {
		return err
	}
	records := int64(0)
	for range reader.AllEntries(ctx, checkpoint.Tree, 0) {
		records++
	}
	if err := reader.Err(); err != nil {
		return err
	}
	if records != checkpoint.N {
		return fmt.Errorf("%d records in a tree of %d", records, checkpoint.N)
	}
	fmt.Println(records, checkpoint.Hash)
	return nil
}

func grown(ctx context.Context, tiles torchwood.TileReader, now tlog.Tree, size, root string) error {
	earlier, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	was, err := tlog.ParseHash(root)
	if err != nil {
		return err
	}
	proof, err := tlog.ProveTree(now.N, earlier, torchwood.TileHashReaderWithContext(ctx, now, tiles))
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, now.N, now.Hash, earlier, was)
}
