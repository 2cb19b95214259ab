package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// s3 is a bucket of a store that speaks S3.
type s3 struct {
	client         *minio.Client
	bucket, prefix string
	url            string
}

const (
	defaultEndpoint = "s3.amazonaws.com"
	// tries is how often one request is sent. Whoever uses the store tries again
	// later, and tells what is wrong meanwhile.
	tries = 3
	// metadataWait is how long a machine that is not in a cloud may take to say that
	// it has no keys of its own.
	metadataWait = 2 * time.Second
)

func openS3(u *url.URL, p Patience) (Store, error) {
	options, err := s3Options(u)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: p.Answer, KeepAlive: time.Minute}).DialContext
	transport.ResponseHeaderTimeout = p.Answer
	transport.DisableCompression = true // a part's bytes are its own
	wary := wary{transport}
	client, err := minio.New(options.endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Transport: wary, Timeout: metadataWait}},
		}),
		Secure: !options.insecure, Region: options.region, Transport: wary, MaxRetries: tries,
		BucketLookup: minio.BucketLookupAuto,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &s3{client: client, bucket: u.Host, prefix: prefix, url: u.String()}, nil
}

// place is where a bucket is.
type place struct {
	endpoint, region string
	insecure         bool
}

func s3Options(u *url.URL) (place, error) {
	at := place{endpoint: defaultEndpoint}
	if err := s3utils.CheckValidBucketName(u.Host); err != nil {
		return at, fmt.Errorf("%w: %q names no bucket: s3://BUCKET/PREFIX?endpoint=HOST:PORT: %w", ErrURL, u, err)
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return at, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	for key, list := range values {
		switch value := list[len(list)-1]; key {
		case "endpoint":
			if strings.Contains(value, "/") {
				return at, fmt.Errorf("%w: endpoint=%s is not HOST:PORT; for a store without TLS add insecure=true", ErrURL, value)
			}
			at.endpoint = value
		case "region":
			at.region = value
		case "insecure":
			if value != "true" && value != "false" {
				return at, fmt.Errorf("%w: insecure=%q is neither true nor false", ErrURL, value)
			}
			at.insecure = value == "true"
		default:
			return at, fmt.Errorf("%w: %q: %q is none of endpoint, region and insecure", ErrURL, u, key)
		}
	}
	return at, nil
}

func (s *s3) String() string { return s.url }

// Create implements Store. One request sends all of it, on the condition that
// there is none of that name.
func (s *s3) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	options := minio.PutObjectOptions{
		ContentType: "application/octet-stream", DisableMultipart: true,
		SendContentMd5: true, // what a bucket with object lock wants
	}
	options.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, io.NewSectionReader(contents, 0, size), size, options)
	return s3Error(err)
}

// Open implements Store.
func (s *s3) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	// Core's one request says at once whether there is such an object.
	body, _, _, err := (&minio.Core{Client: s.client}).GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s3Error(err)
	}
	return &s3Body{body}, nil
}

// s3Body says of a broken connection that the store is out of reach.
type s3Body struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *s3Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return n, err
}

// Remove implements Remover.
func (s *s3) Remove(ctx context.Context, name string) error {
	if err := removable(name); err != nil {
		return err
	}
	return s3Error(s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
}

// List implements Store.
func (s *s3) List(ctx context.Context, prefix, after string, yield func(Object) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutine that asks for more
	options := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
	if after != "" {
		options.StartAfter = s.prefix + after
	}
	last := ""
	for object := range s.client.ListObjects(ctx, s.bucket, options) {
		if object.Err != nil {
			return s3Error(object.Err)
		}
		name, isBelow := strings.CutPrefix(object.Key, s.prefix)
		if !isBelow || name <= last && last != "" {
			return fmt.Errorf("%w: %s lists %.200q after %.200q, and a list is in the order of names", ErrUnavailable, s, object.Key, last)
		}
		last = name
		if name <= after {
			continue // a store that does not know start-after lists all
		}
		if err := yield(Object{name, object.Size}); err != nil {
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
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == "PreconditionFailed" || answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", ErrExists, err)
	case answer.Code == "NoSuchKey":
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
