package bucket

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"

	"cloud.google.com/go/auth/credentials"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	google "google.golang.org/api/transport/http"
)

// gcs is a bucket of Google's Cloud Storage. Its S3 door has no condition that there is
// no object of a name, so this is the JSON API.
type gcs struct {
	objects        *storage.ObjectsService
	bucket, prefix string
	url            string
}

var gcsBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func openGCS(u *url.URL, p Patience) (Store, error) {
	if !gcsBucket.MatchString(u.Host) {
		return nil, fmt.Errorf("%w: %q names no bucket: gs://BUCKET/PREFIX", ErrURL, u)
	}
	at, err := placeIn(u, "endpoint", "insecure")
	if err != nil {
		return nil, err
	}
	keys, err := gcsKeys(at, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: no keys for it were found (GOOGLE_APPLICATION_CREDENTIALS names a file with some): %w", ErrURL, u, err)
	}
	ctx := context.Background() // nothing is sent
	isObject := func(r *http.Request) bool { return r.URL.Query().Get("alt") == "media" }
	transport, err := google.NewTransport(ctx, p.transport(isObject), keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	var options []option.ClientOption
	if at.endpoint != "" {
		options = append(options, option.WithEndpoint(at.scheme()+"://"+at.endpoint+"/storage/v1/"))
	}
	service, err := storage.NewService(ctx, append(options, option.WithHTTPClient(&http.Client{Transport: transport}))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	return &gcs{objects: service.Objects, bucket: u.Host, prefix: prefixIn(u), url: u.String()}, nil
}

// gcsKeys finds the keys for a bucket. Whoever gives them out gets no more time than the
// store: Google's client would wait for a token on its own, without an end, whatever the
// request's context says.
func gcsKeys(at place, p Patience) (option.ClientOption, error) {
	if at.insecure {
		return option.WithoutAuthentication(), nil // no key goes over a wire that anybody may read
	}
	none := func(*http.Request) bool { return false }
	found, err := credentials.DetectDefault(&credentials.DetectOptions{
		Scopes: []string{storage.DevstorageReadWriteScope},
		Client: &http.Client{Transport: p.transport(none), Timeout: p.Answer},
	})
	if err != nil {
		return nil, err
	}
	return option.WithAuthCredentials(found), nil
}

func (g *gcs) String() string { return g.url }

// Create implements Store. One request sends all of it, on the condition that there
// is none of that name, with a sum that the store compares.
func (g *gcs) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(sum, io.NewSectionReader(contents, 0, size)); err != nil {
		return fmt.Errorf("bucket: %w", err)
	}
	object := &storage.Object{
		Name: g.prefix + name, ContentType: objectType,
		Crc32c: base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum.Sum32())),
	}
	_, err := g.objects.Insert(g.bucket, object).IfGenerationMatch(0).Context(ctx).
		Media(io.NewSectionReader(contents, 0, size), googleapi.ContentType(objectType), googleapi.ChunkSize(0)).Do()
	return gcsError(err)
}

// Open implements Store.
func (g *gcs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	resp, err := g.objects.Get(g.bucket, g.prefix+name).Context(ctx).Download()
	if err == nil {
		return &passing{resp.Body}, nil
	}
	var answer *googleapi.Error
	if !errors.As(err, &answer) || answer.Code != http.StatusNotFound {
		return nil, gcsError(err)
	}
	// It is the same answer where there is no bucket.
	if _, other := g.objects.List(g.bucket).MaxResults(1).Fields("kind").Context(ctx).Do(); other != nil {
		return nil, gcsError(other)
	}
	return nil, says(ErrNotFound, err)
}

// Remove implements Remover.
func (g *gcs) Remove(ctx context.Context, name string) error {
	if err := removable(name); err != nil {
		return err
	}
	err := g.objects.Delete(g.bucket, g.prefix+name).Context(ctx).Do()
	var answer *googleapi.Error
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil
	}
	return gcsError(err)
}

// List implements Store.
func (g *gcs) List(ctx context.Context, prefix, after string, yield func(Object) error) error {
	order := listed{store: g.String(), prefix: g.prefix, after: after, yield: yield}
	call := g.objects.List(g.bucket).Prefix(g.prefix+prefix).Fields("nextPageToken", "items(name,size)")
	if after != "" {
		call.StartOffset(g.prefix + after)
	}
	var stopped error // by whoever takes the list
	err := call.Pages(ctx, func(page *storage.Objects) error {
		for _, object := range page.Items {
			if stopped = order.next(object.Name, int64(object.Size)); stopped != nil {
				return stopped
			}
		}
		return nil
	})
	if stopped != nil {
		return stopped
	}
	return gcsError(err)
}

// gcsError tells what an answer says of an object from what may pass.
func gcsError(err error) error {
	if err == nil {
		return nil
	}
	var answer *googleapi.Error
	if errors.As(err, &answer) && answer.Code == http.StatusPreconditionFailed {
		return says(ErrExists, err)
	}
	return says(ErrUnavailable, err)
}
