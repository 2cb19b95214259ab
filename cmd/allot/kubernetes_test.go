package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// manifest is what the test needs of an object in Kubernetes' file.
type manifest struct {
	Kind string `yaml:"kind"`
	Spec struct {
		Replicas    int                `yaml:"replicas"`
		ServiceName string             `yaml:"serviceName"`
		Selector    yaml.Node          `yaml:"selector"`
		Ports       []port             `yaml:"ports"`
		Unavailable int                `yaml:"maxUnavailable"`
		Template    struct{ Spec pod } `yaml:"template"`
	} `yaml:"spec"`
}

type port struct {
	Name      string `yaml:"name"`
	Port      int    `yaml:"port"`
	Container int    `yaml:"containerPort"`
}

type pod struct {
	InitContainers []yaml.Node `yaml:"initContainers"`
	Containers     []struct {
		Args      []string `yaml:"args"`
		Ports     []port   `yaml:"ports"`
		Liveness  probe    `yaml:"livenessProbe"`
		Readiness probe    `yaml:"readinessProbe"`
	} `yaml:"containers"`
}

type probe struct {
	HTTP struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

// manifests reads a file of docs/deploy.
func manifests(t *testing.T, name string) map[string][]manifest {
	t.Helper()
	text := read(t, "../../docs/deploy/"+name)
	kinds := make(map[string][]manifest)
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one manifest
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return kinds
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[one.Kind] = append(kinds[one.Kind], one)
	}
}

// TestKubernetesFile runs what docs/deploy/kubernetes-begin.yaml and kubernetes.yaml run: the job and the three pods
// are processes here, with the arguments of the files but for addresses and folders. They form a ledger, the probes
// hold, and a server with a certificate of another authority stays outside.
func TestKubernetesFile(t *testing.T) {
	t.Parallel()
	kinds := manifests(t, "kubernetes.yaml")
	if len(kinds["StatefulSet"]) != 1 || len(kinds["PodDisruptionBudget"]) != 1 || len(kinds["Service"]) != 2 {
		t.Fatalf("the file has %v", kinds)
	}
	set := kinds["StatefulSet"][0].Spec
	if lost := kinds["PodDisruptionBudget"][0].Spec.Unavailable; set.Replicas != 3 || lost != 1 {
		t.Errorf("%d replicas, of which %d may be lost", set.Replicas, lost)
	}
	if pod := set.Template.Spec; len(pod.InitContainers) > 0 || len(pod.Containers) != 1 {
		t.Fatalf("the pods run %+v", pod)
	}
	container := set.Template.Spec.Containers[0]
	for _, service := range kinds["Service"] {
		for _, p := range service.Spec.Ports {
			if !slices.ContainsFunc(container.Ports, func(own port) bool { return own.Container == p.Port }) {
				t.Errorf("a service has port %d, and the container has not", p.Port)
			}
		}
	}
	pods := scheduled(t, set.ServiceName, set.Template.Spec)
	for i, s := range pods {
		for _, p := range []probe{container.Liveness, container.Readiness} {
			if p.HTTP.Port != "http" {
				t.Errorf("%s is asked at port %s", p.HTTP.Path, p.HTTP.Port)
			}
			ledgertest.WaitFor(t, p.HTTP.Path, func() bool {
				status, _ := s.standing(p.HTTP.Path)
				return status == http.StatusOK
			})
		}
		ledgertest.WaitFor(t, "a write", func() bool {
			status, _, err := s.Call("PUT", fmt.Sprintf("/traits/CUSTOM_%d", i), "", "")
			return err == nil && status == http.StatusCreated
		})
	}
	staysOutside(t, pods[2])
}

// staysOutside starts a server of a cluster again with a certificate of another authority: it does not get the
// cluster's log. With its own it is back.
func staysOutside(t *testing.T, s *server) {
	t.Helper()
	s.Kill()
	args, theirs := slices.Clone(s.Cmd.Args[1:]), t.TempDir()
	issueAuthority(t, theirs)
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--cluster-tls=") })
	args[at] = "--cluster-tls=" + theirs
	foreign := begin(t, s.HTTP, exec.Command(binary, args...))
	foreign.waitLog("waiting for the cluster's log")
	if status, h := foreign.standing("/readyz"); status != 503 || h.Role != "starting" {
		t.Errorf("a server with another's certificate: %d %+v", status, h)
	}
	foreign.Kill()
	s.Again()
	s.waitReady()
	s.Must(204, "GET", "/traits/CUSTOM_0", "")
}

// scheduled starts three pods, with addresses and folders of this machine.
func scheduled(t *testing.T, service string, pod pod) (pods [3]*server) {
	t.Helper()
	dir := mounted(t)
	var members []string
	for i := range pods {
		members = append(members, fmt.Sprintf("allot-%d.%s.$(NAMESPACE).svc:6222", i, service), freeAddress(t))
	}
	for i := range pods {
		name, address := fmt.Sprintf("allot-%d", i), freeAddress(t)
		replaced := strings.NewReplacer(append(members,
			"--cluster-listen=0.0.0.0:6222", "--cluster-listen="+members[2*i+1],
			"0.0.0.0:8778", address, "0.0.0.0:4222", freeAddress(t),
			"0.0.0.0:6223", freeAddress(t), "$(POD)", name, "/etc/allot", dir, "/etc/cluster", dir,
			"=/data", "="+filepath.Join(dir, name),
		)...)
		local := func(given []string) (args []string) {
			for _, arg := range given {
				args = append(args, replaced.Replace(arg))
			}
			return args
		}
		if i == 0 {
			job := manifests(t, "kubernetes-begin.yaml")["Job"][0].Spec.Template.Spec.Containers[0]
			allot(t, true, local(job.Args)...)
		}
		args := local(pod.Containers[0].Args)
		if left := strings.Join(args, " "); regexp.MustCompile(`0\.0\.0\.0|/etc/|\$\(`).MatchString(left) {
			t.Fatalf("not everything was replaced: %s", left)
		}
		s := begin(t, address, exec.Command(binary, args...))
		s.tellsIfFailed(name)
		pods[i] = s
	}
	return pods
}

// mounted makes a folder with the files of the pods' secret and configuration.
func mounted(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	issueAuthority(t, dir)
	for name, text := range map[string]string{
		"secret": uuid.NewString(), "allot.yaml": "log-level: info\n",
		"nats-users.yaml": fmt.Sprintf("users: [{name: nova, password: %q, role: submitter}]\n", hashed(t, "correct horse")),
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// issueAuthority writes a new certificate, and its authority beside it.
func issueAuthority(t *testing.T, dir string) {
	t.Helper()
	issue(t, dir, 1)
	must(t, os.Link(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "ca.pem")))
}
