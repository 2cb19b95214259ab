package auth

import "github.com/gophercloud/gophercloud/v2"

// Password is the account of a user in a project, by their names and those of their domains.
func Password(username, password, userDomain, project, projectDomain string) Account {
	return Account{gophercloud.AuthOptions{
		Username: username, Password: password, DomainName: userDomain,
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: projectDomain},
	}}
}

// Credential is the account of an application credential.
func Credential(id, secret string) Account {
	return Account{gophercloud.AuthOptions{ApplicationCredentialID: id, ApplicationCredentialSecret: secret}}
}
