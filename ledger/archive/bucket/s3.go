package bucket

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

type s3 struct {
	client         *minio.Client
	bucket, prefix string
	url            string
}

const (
	defaultEndpoint = "s3.amazonaws.com"
	// googleHost is Google's door for clients of S3.
	googleHost = "storage.googleapis.com"
	// tries is how often one request is sent. The store's user tries again later,
	// and tells what is wrong meanwhile.
	tries = 3
	// metadataWait is how long a machine that is not in a cloud may take to say that
	// it has no keys of its own.
	metadataWait = 2 * time.Second
)

func openS3(u *url.URL) (Store, error) {
	at, err := placeIn(u)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(!at.insecure)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	client, err := minio.New(at.endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Transport: transport, Timeout: metadataWait}},
		}),
		Secure: !at.insecure, Region: at.region, Transport: transport, MaxRetries: tries,
		BucketLookup: minio.BucketLookupAuto,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	prefix := strings.TrimPrefix(strings.Trim(u.Path, "/")+"/", "/") // "" if the URL has none
	return &s3{client: client, bucket: u.Host, prefix: prefix, url: u.String()}, nil
}

// place is where a bucket is, as its URL says.
type place struct {
	endpoint, region string
	insecure         bool
}

func placeIn(u *url.URL) (at place, err error) {
	if err := s3utils.CheckValidBucketName(u.Host); err != nil {
		return at, fmt.Errorf("%w: %q names no bucket: s3://BUCKET/PREFIX?endpoint=HOST:PORT: %w", ErrURL, u, err)
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return at, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	for key := range values {
		if key != "endpoint" && key != "region" && key != "insecure" {
			return at, fmt.Errorf("%w: %q: %q is none of endpoint, region, insecure", ErrURL, u, key)
		}
	}
	insecure := cmp.Or(values.Get("insecure"), "false")
	at = place{cmp.Or(values.Get("endpoint"), defaultEndpoint), values.Get("region"), insecure == "true"}
	host, _, _ := strings.Cut(at.endpoint, ":")
	switch {
	case insecure != "true" && insecure != "false":
		return at, fmt.Errorf("%w: insecure=%q is neither true nor false", ErrURL, insecure)
	case strings.Contains(at.endpoint, "/"):
		return at, fmt.Errorf("%w: endpoint=%s is not HOST:PORT; for a store without TLS add insecure=true", ErrURL, at.endpoint)
	case strings.HasSuffix(strings.ToLower(host), googleHost):
		return at, fmt.Errorf("%w: %s does not know the condition that an object is new, so two servers could overwrite each "+
			"other's parts: archive to file:///FOLDER, and copy that folder with gcloud storage rsync", ErrURL, host)
	}
	return at, nil
}

func (s *s3) String() string { return s.url }

// largestPut is what one request may send, by S3's rules.
const largestPut = 5 << 30

// Create implements Store. One request sends all of it, on the condition that
// there is none of that name; more than largestPut goes in parts, and the condition
// is that of the request which puts them together.
func (s *s3) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	options := minio.PutObjectOptions{
		ContentType: objectType, DisableMultipart: size <= largestPut,
		SendContentMd5: true, // what a bucket with object lock wants
	}
	options.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, io.NewSectionReader(contents, 0, size), size, options)
	return s3Error(err)
}

func (s *s3) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	// Core's one request says at once whether there is such an object.
	body, _, _, err := (&minio.Core{Client: s.client}).GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s3Error(err)
	}
	return body, nil
}

func (s *s3) Remove(ctx context.Context, name string) error {
	if err := removable(name); err != nil {
		return err
	}
	return s3Error(s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
}

func (s *s3) List(ctx context.Context, prefix string, yield func(Object) error) error {
	options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
	for object := range s.client.ListObjectsIter(ctx, s.bucket, options) {
		if object.Err != nil {
			return s3Error(object.Err)
		}
		if err := yield(Object{strings.TrimPrefix(object.Key, s.prefix), object.Size}); err != nil {
			return err
		}
	}
	return s3Error(ctx.Err())
}

// s3Error tells what an answer says of an object from what may pass.
func s3Error(err error) error {
	if err == nil {
		return nil
	}
	answer, what := minio.ToErrorResponse(err), ErrUnavailable
	switch {
	case answer.Code == "PreconditionFailed" || answer.StatusCode == http.StatusPreconditionFailed:
		what = ErrExists
	case answer.Code == "NoSuchKey":
		what = ErrNotFound
	}
	return fmt.Errorf("%w: %w", what, err)
}
