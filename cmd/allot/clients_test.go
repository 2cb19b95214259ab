package main_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// said is a command of a client, and a part of what it prints. A refusal is wanted if its text has blanks.
type said struct{ want, command string }

// suggestions are what a client that does not know a command names instead.
var suggestions = regexp.MustCompile(`(?m)^  .*\n`)

// converse has an interactive client carry out commands, and compares what it prints for each.
// So it loads its libraries once, which takes longer than all that it is asked.
func converse(t *testing.T, client *exec.Cmd, list []said) {
	t.Helper()
	const end = "end-of-answer" // no command, which the client says
	var lines strings.Builder
	for _, one := range list {
		lines.WriteString(one.command + "\n" + end + "\n")
	}
	client.Stdin = strings.NewReader(lines.String())
	client.Env = append(client.Environ(), "PYTHONUNBUFFERED=1", "PYTHONWARNINGS=ignore", "HOME="+t.TempDir())
	out, err := client.CombinedOutput()
	answers := strings.Split(suggestions.ReplaceAllString(string(out), ""), "'"+end+"' is not ")
	if err != nil || len(answers) != len(list)+1 {
		t.Fatalf("%v: %d answers to %d commands:\n%s", err, len(answers)-1, len(list), out)
	}
	for i, one := range list {
		refused := strings.Contains(answers[i], "(HTTP ") && !strings.Contains(one.want, " ")
		if refused || !strings.Contains(answers[i], one.want) {
			t.Errorf("%s: wanted %q\n%s", one.command, one.want, answers[i])
		}
	}
}

// TestOpenstackCommand runs every command of osc-placement once.
func TestOpenstackCommand(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import openstackclient, osc_placement").Run(); err != nil {
		t.Skip("skipped: python3-openstackclient and python3-osc-placement are not installed")
	}
	s := launch(t, t.TempDir())
	const p, kid, consumer = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	const aggregate, project, user = "44444444-4444-4444-8444-444444444444", "55555555-5555-4555-8555-555555555555", "66666666-6666-4666-8666-666666666666"
	client := exec.Command("openstack", "--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", "http://"+s.HTTP)
	client.Env = append(client.Environ(), "OS_PLACEMENT_API_VERSION=1.29")
	converse(t, client, []said{
		{"", "resource class create CUSTOM_GPU"},
		{"", "resource class set CUSTOM_FPGA"},
		{"CUSTOM_GPU", "resource class list"},
		{"CUSTOM_GPU", "resource class show CUSTOM_GPU"},
		{"", "resource class delete CUSTOM_FPGA"},
		{"", "trait create CUSTOM_GOLD"},
		{"CUSTOM_GOLD", "trait show CUSTOM_GOLD"},
		{"CUSTOM_GOLD", "trait list --name startswith:CUSTOM"},
		{p, "resource provider create --uuid " + p + " root"},
		{p, "resource provider create --uuid " + kid + " --parent-provider " + p + " kid"},
		{"node", "resource provider set --name node " + p},
		{"node", "resource provider show " + p},
		{"node", "resource provider list --in-tree " + kid},
		{"VCPU", "resource provider inventory set " + p + " --resource VCPU=16 --resource CUSTOM_GPU=2"},
		{"32", "resource provider inventory class set " + p + " VCPU --total 32"},
		{"VCPU", "resource provider inventory list " + p},
		{"32", "resource provider inventory show " + p + " VCPU"},
		{"", "resource provider inventory delete " + p + " --resource-class CUSTOM_GPU"},
		{"CUSTOM_GOLD", "resource provider trait set --trait CUSTOM_GOLD " + p},
		{"CUSTOM_GOLD", "resource provider trait list " + p},
		{aggregate, "resource provider aggregate set --aggregate " + aggregate + " --generation 4 " + p},
		{aggregate, "resource provider aggregate list " + p},
		{"VCPU=2", "allocation candidate list --resource VCPU=2 --required CUSTOM_GOLD"},
		{p, "resource provider allocation set --allocation rp=" + p + ",VCPU=2 --project-id " + project + " --user-id " + user + " " + consumer},
		{p, "resource provider allocation show " + consumer},
		{"VCPU", "resource provider usage show " + p},
		{"VCPU", "resource usage show " + project + " --user-id " + user},
		{"", "resource provider allocation unset --resource-class VCPU " + consumer},
		{p, "resource provider allocation set --allocation rp=" + p + ",VCPU=2 --project-id " + project + " --user-id " + user + " " + consumer},
		{"", "resource provider allocation delete " + consumer},
		{"", "resource provider trait delete " + p},
		{"", "trait delete CUSTOM_GOLD"},
		{"", "resource provider delete " + kid},
		{"", "resource provider delete " + p},
	})
}
