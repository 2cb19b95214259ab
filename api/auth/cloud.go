package auth

import (
	"cmp"
	"crypto/tls"
	"errors"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// Account is what a service signs in to Keystone with.
type Account struct{ options gophercloud.AuthOptions }

// Cloud finds the account of a cloud of clouds.yaml, and how to trust its Keystone, where all
// clients of OpenStack look for that file. Without a name it is the cloud of OS_CLOUD, or what the
// other variables OS_* say; the system's certificates are trusted then (SSL_CERT_FILE).
func Cloud(name string) (Account, *tls.Config, error) {
	if name = cmp.Or(name, os.Getenv("OS_CLOUD")); name != "" {
		options, _, trust, err := clouds.Parse(clouds.WithCloudName(name))
		return Account{options}, trust, err
	}
	options, err := fromEnvironment()
	return Account{options}, nil, err
}

// fromEnvironment reads the account in the variables that openrc files set.
func fromEnvironment() (gophercloud.AuthOptions, error) {
	options := gophercloud.AuthOptions{
		Username: os.Getenv("OS_USERNAME"), UserID: os.Getenv("OS_USER_ID"), Password: os.Getenv("OS_PASSWORD"),
		ApplicationCredentialID:     os.Getenv("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   os.Getenv("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: os.Getenv("OS_APPLICATION_CREDENTIAL_SECRET"),
	}
	if options.UserID == "" && options.ApplicationCredentialID == "" {
		options.DomainID = os.Getenv("OS_USER_DOMAIN_ID")
		if options.DomainID == "" {
			options.DomainName = cmp.Or(os.Getenv("OS_USER_DOMAIN_NAME"), "Default")
		}
	}
	if options.ApplicationCredentialSecret != "" {
		return options, nil
	}
	if options.Password == "" || options.Username == "" && options.UserID == "" {
		return options, errors.New("name a cloud of clouds.yaml, or set OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME, " +
			"or OS_APPLICATION_CREDENTIAL_ID and OS_APPLICATION_CREDENTIAL_SECRET")
	}
	options.Scope = &gophercloud.AuthScope{ProjectID: os.Getenv("OS_PROJECT_ID")}
	if options.Scope.ProjectID == "" {
		options.Scope.ProjectName, options.Scope.DomainID = os.Getenv("OS_PROJECT_NAME"), os.Getenv("OS_PROJECT_DOMAIN_ID")
		if options.Scope.DomainID == "" {
			options.Scope.DomainName = cmp.Or(os.Getenv("OS_PROJECT_DOMAIN_NAME"), "Default")
		}
	}
	return options, nil
}

// at is the account at a Keystone. AllowReauth stays false, because Keystone renews the token.
func (a Account) at(url string) *gophercloud.AuthOptions {
	options := a.options
	options.IdentityEndpoint, options.AllowReauth = url, false
	return &options
}
