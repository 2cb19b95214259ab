package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// azure is a container of Azure's Blob Storage.
type azure struct {
	container *container.Client
	prefix    string
	url       string
}

const (
	// azureHost is the host of an account in Azure's public cloud.
	azureHost = ".blob.core.windows.net"
	// azurePage is how many objects a page of a list has. Azure says some 40 things of
	// each of them.
	azurePage = 250
)

// The environment's variables for keys, as Azure's own tools have them. Without any,
// the machine's identity is asked for one.
const (
	azureAccount = "AZURE_STORAGE_ACCOUNT"
	azureKey     = "AZURE_STORAGE_KEY"
	azureSAS     = "AZURE_STORAGE_SAS_TOKEN"
)

var azureContainer = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)

func openAzure(u *url.URL, p Patience) (Store, error) {
	if !azureContainer.MatchString(u.Host) {
		return nil, fmt.Errorf("%w: %q names no container: azblob://CONTAINER/PREFIX?account=ACCOUNT", ErrURL, u)
	}
	at, err := placeIn(u, "account", "endpoint", "insecure")
	if err != nil {
		return nil, err
	}
	if at.account = cmp.Or(at.account, os.Getenv(azureAccount)); at.account == "" {
		return nil, fmt.Errorf("%w: %q names no account: add account=ACCOUNT, or set %s", ErrURL, u, azureAccount)
	}
	client, err := azureClient(at.azureURL()+u.Host, at, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	return &azure{container: client, prefix: prefixIn(u), url: u.String()}, nil
}

// azureURL is where an account is. A host that does not begin with its name, such as
// that of an emulator, has it in the path.
func (at place) azureURL() string {
	host := cmp.Or(at.endpoint, at.account+azureHost)
	if strings.HasPrefix(host, at.account+".") {
		return at.scheme() + "://" + host + "/"
	}
	return at.scheme() + "://" + host + "/" + at.account + "/"
}

// azureClient returns a client with the first keys that are there.
func azureClient(url string, at place, p Patience) (*container.Client, error) {
	transport := p.transport(func(r *http.Request) bool { return r.URL.Query().Get("comp") == "" })
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: tries - 1},
	}}
	if key := os.Getenv(azureKey); key != "" {
		signer, err := container.NewSharedKeyCredential(at.account, key)
		if err != nil {
			return nil, fmt.Errorf("%s is no key: %w", azureKey, err)
		}
		return container.NewClientWithSharedKeyCredential(url, signer, options)
	}
	if sas := strings.TrimPrefix(os.Getenv(azureSAS), "?"); sas != "" {
		return container.NewClientWithNoCredential(url+"?"+sas, options)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("no keys for it were found in %s, %s, or elsewhere: %w", azureKey, azureSAS, err)
	}
	return container.NewClient(url, identity, options)
}

func (a *azure) String() string { return a.url }

// Create implements Store. One request sends all of it, on the condition that there
// is none of that name, with a sum that the store compares.
func (a *azure) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	kind, exists := objectType, azcore.ETagAny
	isNone := blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &exists}}
	body := streaming.NopCloser(io.NewSectionReader(contents, 0, size))
	_, err := a.container.NewBlockBlobClient(a.prefix+name).Upload(ctx, body, &blockblob.UploadOptions{
		TransactionalValidation: blob.TransferValidationTypeComputeCRC64(),
		HTTPHeaders:             &blob.HTTPHeaders{BlobContentType: &kind},
		AccessConditions:        &isNone,
	})
	return azureError(err)
}

// Open implements Store.
func (a *azure) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	resp, err := a.container.NewBlobClient(a.prefix+name).DownloadStream(ctx, nil)
	if err != nil {
		return nil, azureError(err)
	}
	return &passing{resp.Body}, nil
}

// Remove implements Remover.
func (a *azure) Remove(ctx context.Context, name string) error {
	if err := removable(name); err != nil {
		return err
	}
	_, err := a.container.NewBlobClient(a.prefix+name).Delete(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil
	}
	return azureError(err)
}

// List implements Store.
func (a *azure) List(ctx context.Context, prefix, after string, yield func(Object) error) error {
	order := listed{store: a.String(), prefix: a.prefix, after: after, yield: yield}
	begins, most := a.prefix+prefix, int32(azurePage)
	options := &container.ListBlobsFlatOptions{Prefix: &begins, MaxResults: &most}
	if after != "" {
		from := a.prefix + after
		options.StartFrom = &from
	}
	for pages := a.container.NewListBlobsFlatPager(options); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return azureError(err)
		}
		if page.Segment == nil {
			continue
		}
		for _, item := range page.Segment.BlobItems {
			if item.Name == nil || item.Properties == nil || item.Properties.ContentLength == nil {
				return fmt.Errorf("%w: %s lists an object without a name or a size", ErrUnavailable, a)
			}
			if err := order.next(*item.Name, *item.Properties.ContentLength); err != nil {
				return err
			}
		}
	}
	return nil
}

// azureCode is an error of Azure that tells its code alone.
type azureCode struct{ *azcore.ResponseError }

// Error implements error.
func (e azureCode) Error() string {
	return fmt.Sprintf("Azure answers %d %s", e.StatusCode, e.ErrorCode)
}

// Unwrap returns the whole error.
func (e azureCode) Unwrap() error { return e.ResponseError }

// azureError tells what an answer says of an object from what may pass.
func azureError(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) && answer.ErrorCode != "" { // the rest is the whole answer
		err = azureCode{answer}
	}
	switch {
	case err == nil:
		return nil
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet):
		return says(ErrExists, err)
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return says(ErrNotFound, err)
	}
	return says(ErrUnavailable, err)
}
