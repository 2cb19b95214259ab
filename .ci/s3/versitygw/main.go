// Command versitygw is github.com/versity/versitygw with one of its backends, a folder, and without what serves Azure,
// LDAP and other identities: that compiles in two thirds of the time. It takes the flags that tests give to the whole.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	address := flag.String("port", "", "address to listen on")
	user := flag.String("access", "", "access key")
	password := flag.String("secret", "", "secret key")
	flag.Parse()
	folder := flag.NewFlagSet("posix", flag.ExitOnError)
	sidecar := folder.String("sidecar", "", "folder of the objects' attributes")
	plainFiles := folder.Bool("disableotmp", false, "never use O_TMPFILE")
	if flag.Arg(0) != "posix" {
		log.Fatal("versitygw --port ADDRESS --access KEY --secret SECRET posix --sidecar DIR [--disableotmp] DIR")
	}
	if err := folder.Parse(flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
	if err := serve(*address, *user, *password, folder.Arg(0), *sidecar, *plainFiles); err != nil {
		log.Fatal(err)
	}
}

func serve(address, user, password, folder, sidecar string, plainFiles bool) error {
	attributes, err := meta.NewSideCar(sidecar)
	if err != nil {
		return err
	}
	options := posix.PosixOpts{SideCarDir: sidecar, ForceNoTmpFile: plainFiles, Concurrency: 100, CopyObjectThreshold: 5 << 30}
	options.SetNewDirPerm(0o755)
	options.SetNewFilePerm(0o644)
	objects, err := posix.New(folder, attributes, options)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(context.Background(), objects, &embedgw.Config{
		RootUserAccess: user, RootUserSecret: password, Region: "us-east-1", Ports: []string{address},
		MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10000, Quiet: true,
	})
}
