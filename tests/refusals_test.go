package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// refusal is one case in which nothing may be installed, with the tests that hold it.
type refusal struct {
	what string
	// says is what people read, as far as it is the same each time.
	says string
	// held are tests that want this sentence, by file and name; each of them also holds that
	// nothing was erased, by the words of unharmed.
	held     []string
	unharmed string
}

// What a test says when something was erased or sent that should not have been.
const (
	byAgent  = "something was written, or ran"
	byEngine = "erased"
)

const installs, agents, listener, artifacts = "sinks/agent/inside/install/install_test.go", "engine/agents_test.go", "sinks/agent/listener_test.go", "engine/artifacts_test.go"

var refusals = []refusal{
	{"a disk with another serial number", "is gone; there are: S9 (sda", []string{installs + " TestRefusals"}, byAgent},
	{"a rule that several disks fit", "2 disks fit the rule for the disk os", []string{agents + " TestOtherDisksThanApproved"}, byEngine},
	{"a port without a link", "has no link: its cable is unplugged or broken", []string{agents + " TestNothingIsInstalledOnAnUnpluggedMachine"}, byEngine},
	{"a port at another switch", "and is designed for switch tor-1. Nothing was erased", []string{agents + " TestNothingIsInstalledOnAnUnpluggedMachine"}, byEngine},
	{"a disk that is there twice", "is there 2 times: S1 (sda", []string{installs + " TestRefusals"}, byAgent},
	{"a disk that is missing", "is gone; there are: S2 (sdb", []string{installs + " TestRefusals"}, byAgent},
	{"a disk that is missing, before the agent is asked", "no disk fits", []string{agents + " TestOtherDisksThanApproved"}, byEngine},
	{"another digest of the image, in the store", "the file from h has the SHA-256 bad (1 kB), and d1 is expected", []string{artifacts + " TestNothingIsWrittenWithoutTheImage"}, byEngine},
	{"another digest of the image, on the machine", "another file is served, or it was damaged", []string{installs + " TestRefusals"}, byAgent},
	{"an image larger than the file systems", "the files of the image have more than the", []string{installs + " TestRefusals"}, byAgent},
	{"an image larger than the disk", "and the disk that it is for has", []string{"sinks/agent/inside/install/whole_test.go TestWholeDisksThatAreRefused"}, "erased"},
	{"a token that is used twice", "was used before, by another agent.", []string{listener + " TestAgentsThatAreRefused"}, "is another one than before"},
	{"a token that is used twice, in the node's status", "The token for a was used before, by another agent.", []string{agents + " TestUnkindAgents"}, byEngine},
	{"a token of another node", "The token is for n2, and this machine is n1.", []string{listener + " TestAgentsThatAreRefused"}, "is another one than before"},
	{"a token of another node, in the node's status", "The token is for a, and this machine is b.", []string{agents + " TestUnkindAgents"}, byEngine},
	{"an agent of another machine", "this is another machine: its UUID is", []string{listener + " TestAgentsThatAreRefused"}, "is another one than before"},
	{"an agent of another machine, in the node's status", "and this is another machine: its UUID is", []string{agents + " TestUnkindAgents"}, byEngine},
	{"another machine, on the machine itself", "it is another machine; nothing was written", []string{installs + " TestRefusals"}, byAgent},
	{"an agent with an old protocol", "The agent speaks version 2 of the protocol, and the daemon speaks 3.", []string{listener + " TestAgentsThatAreRefused"}, "is another one than before"},
	{"an agent with an old protocol, in the node's status", "The agent speaks version 1 of the protocol", []string{agents + " TestUnkindAgents"}, byEngine},
	{"a second DHCP server", "another DHCP server answers in the network: 10.71.0.3", []string{"sinks/netboot/policy_test.go TestAnotherServerStops", "sinks/netboot/real_test.go TestRealForeignServer"}, "another server"},
	{"a second DHCP server, in the node's status", "another DHCP server answers", []string{"engine/netboots_test.go TestANetworkThatIsNotServed"}, "calls"},
	{"an exhausted range", "dynamic addresses are in use", []string{"sinks/netboot/policy_test.go TestLeaseLife"}, "a third client got"},
	{"a machine that gets no address, so that no agent calls", "no agent has called", []string{agents + " TestUnkindAgents"}, byEngine},
	{"a full artifact store", "more do not fit into the artifact store", []string{"engine/artifact/store_test.go TestRoomIsMade"}, "after a refusal there are"},
	{"a full artifact store, in the node's status", "more do not fit into the artifact store", []string{artifacts + " TestNothingIsWrittenWithoutTheImage"}, byEngine},
	{"a mirror that stalls", "the server sent less than", []string{"engine/artifact/fetch_test.go TestStallsEnd"}, "there is"},
	{"a mirror that stalls, in the node's status", "the server sent less than", []string{artifacts + " TestNothingIsWrittenWithoutTheImage"}, byEngine},
	{"an agent that vanishes", "the connection to it was lost each time", []string{agents + " TestUnkindAgents"}, byEngine},
	{"an agent that says that it has installed, and has not", "Slipway has not seen from inside yet that it runs", []string{agents + " TestALyingAgentProvesNothing"}, "Installs != 0"},
	{"an agent that says that it has installed another image", "was asked for sha256:d1", []string{listener + " TestAgentInstallsWhatWasPrepared"}, "permission was asked"},
}

// Each refusal of an installation has a test that wants the sentence that people read, and that
// holds that nothing was lost. A forged quote is not among them: no TPM is asked for one.
func TestRefusalsAreHeld(t *testing.T) {
	for _, r := range refusals {
		for _, held := range r.held {
			name, test, _ := strings.Cut(held, " ")
			text, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				t.Errorf("%s: %v", r.what, err)
				continue
			}
			body := regexp.MustCompile(`(?ms)^func ` + test + `\(.*?^}`).FindString(string(text))
			switch {
			case body == "":
				t.Errorf("%s: there is no test %s in %s", r.what, test, name)
			case !strings.Contains(body, r.says):
				t.Errorf("%s: %s does not want %q", r.what, held, r.says)
			case !strings.Contains(body, r.unharmed):
				t.Errorf("%s: %s does not hold that nothing was lost: it has no %q", r.what, held, r.unharmed)
			}
		}
	}
}
