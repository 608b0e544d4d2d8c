package lab_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// rack is what the machines of these tests take their time for.
var rack = lab.Latency{PowerOn: 30 * time.Second, PowerOff: 20 * time.Second, Boot: 90 * time.Second, Install: 5 * time.Minute}

// in runs a test of one machine in a bubble, where its time costs none.
func in(t *testing.T, c lab.Config, test func(t *testing.T, m *lab.Machine, b *bmc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := build(t, c)
		test(t, f.Machine("n1"), beside(t, f))
	})
}

// after lets time of the bubble go by.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func power(t *testing.T, m *lab.Machine, want string) {
	t.Helper()
	if got := m.Power(); got != want {
		t.Fatalf("the machine is %s, want %s", got, want)
	}
}

func progress(t *testing.T, b *bmc, want string) {
	t.Helper()
	if got := b.system()["BootProgress"].(map[string]any)["LastState"]; got != want {
		t.Errorf("BootProgress is %v, want %s", got, want)
	}
}

func TestPowerOnTakesItsTime(t *testing.T) {
	in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
		progress(t, b, "None")
		asked := time.Now()
		b.reset("On")
		if s := b.system(); s["PowerState"] != "PoweringOn" || s["LastResetTime"] != asked.UTC().Format(time.RFC3339) {
			t.Errorf("the system is %v, reset %v", s["PowerState"], s["LastResetTime"])
		}
		after(rack.PowerOn - 1)
		power(t, m, "PoweringOn")
		after(1)
		power(t, m, "On")
		progress(t, b, "OSBootStarted")
		after(rack.Boot)
		progress(t, b, "OSRunning")
		if m.BootCount() != 1 || m.Resets() != 1 {
			t.Errorf("%d boots and %d resets, want one of each", m.BootCount(), m.Resets())
		}
	})
}

func TestWhatIsSoAlreadyIsNoReset(t *testing.T) {
	in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
		b.reset("ForceOff")
		b.reset("GracefulShutdown")
		if m.Resets() != 0 {
			t.Errorf("%d resets of a machine that was off", m.Resets())
		}
		b.reset("On")
		after(rack.PowerOn / 2)
		b.reset("On") // under way
		b.want(409, "POST", resetURI, `{"ResetType": "GracefulShutdown"}`)
		after(rack.PowerOn / 2)
		power(t, m, "On")
		b.reset("On")
		if m.Resets() != 1 || m.BootCount() != 1 {
			t.Errorf("%d resets and %d boots, want one of each", m.Resets(), m.BootCount())
		}
	})
}

func TestShutdownNeedsASystemThatListens(t *testing.T) {
	in(t, one(rack, isOn), func(t *testing.T, m *lab.Machine, b *bmc) {
		m.SetFault(lab.Fault{Kind: lab.FaultNoShutdown})
		b.reset("GracefulShutdown")
		b.reset("GracefulRestart")
		after(time.Hour)
		power(t, m, "On")
		m.ClearFault()
		b.reset("GracefulShutdown")
		after(rack.PowerOff - 1)
		power(t, m, "PoweringOff")
		b.want(409, "POST", resetURI, `{"ResetType": "On"}`)
		after(1)
		power(t, m, "Off")
		if m.Resets() != 1 {
			t.Errorf("%d resets, want 1", m.Resets())
		}
	})
	in(t, one(rack, isOn, isBlank), func(t *testing.T, m *lab.Machine, b *bmc) {
		b.reset("GracefulShutdown") // nothing runs
		after(time.Hour)
		power(t, m, "On")
		b.reset("ForceOff")
		after(time.Second)
		power(t, m, "Off")
	})
}

func TestRestartBootsAgain(t *testing.T) {
	in(t, one(rack, isOn), func(t *testing.T, m *lab.Machine, b *bmc) {
		for i, kind := range []string{"GracefulRestart", "ForceRestart"} {
			before := m.State()
			b.reset(kind)
			after(rack.PowerOff + rack.PowerOn + rack.Boot)
			if s := m.State(); s.Power != "On" || s.Counts.Boots != i+2 || s.BootID == before.BootID || s.BootID == "" {
				t.Errorf("after a %s: %+v", kind, s)
			}
		}
	})
}

func TestOverrideIsUsedUpByTheBoot(t *testing.T) {
	in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
		boot := func() string {
			v := b.system()["Boot"].(map[string]any)
			return fmt.Sprint(v["BootSourceOverrideEnabled"], " ", v["BootSourceOverrideTarget"])
		}
		b.override("Once", "Pxe")
		b.reset("On")
		after(rack.PowerOn - 1)
		if got := boot(); got != "Once Pxe" {
			t.Errorf("before the boot the override is %s", got)
		}
		after(1)
		if got := boot(); got != "Disabled None" {
			t.Errorf("after the boot the override is %s", got)
		}
		b.override("Continuous", "Pxe")
		m.SetPower("off")
		m.SetPower("on")
		if got := boot(); got != "Continuous Pxe" {
			t.Errorf("a continuous override is %s after a boot", got)
		}
	})
}

func TestBlankDiskBootsNothing(t *testing.T) {
	in(t, one(rack, isBlank), func(t *testing.T, m *lab.Machine, b *bmc) {
		b.reset("On")
		after(time.Hour)
		power(t, m, "On")
		progress(t, b, "SystemHardwareInitializationComplete")
		if s := m.State(); s.Runs != "" || s.BootID != "" || s.DiskDigest != "" {
			t.Errorf("the machine has %+v", s)
		}
	})
}

// images is an image server outside any bubble.
func images(t *testing.T) (url, digest string) {
	f := start(t, lab.Config{Seed: "images"})
	return strings.NewReplacer("{node}", "n1", "{generation}", "3").Replace(f.ImageURL("debian12")), f.ImageSHA256("debian12", "n1", 3)
}

// install boots n1 from a medium.
func install(b *bmc, url string) {
	b.insert(url)
	b.override("Once", "Cd")
	b.reset("On")
	after(rack.PowerOn)
}

// fetched waits, outside the bubble's time, for an image to be fetched: a
// goroutine that waits for the network keeps the bubble's time still.
func fetched() { after(1) }

func TestInstallation(t *testing.T) {
	url, digest := images(t)
	in(t, one(rack, isBlank), func(t *testing.T, m *lab.Machine, b *bmc) {
		install(b, url)
		fetched()
		if s := m.State(); s.Runs != "installer" || s.Counts.Installs != 0 {
			t.Fatalf("the installer has %+v", s)
		}
		after(rack.Install)
		power(t, m, "PoweringOff")
		after(rack.PowerOff)
		power(t, m, "Off")
		want := site.Marker{Node: "n1", Generation: 3, Image: digest}
		if s := m.State(); s.DiskDigest != digest || s.Marker == nil || *s.Marker != want || s.Counts.Installs != 1 || s.Media != url {
			t.Errorf("the machine has %+v, want the marker %+v", s, want)
		}
		if m.Resets() != 1 {
			t.Errorf("%d resets, want only the one that was asked for", m.Resets())
		}
		b.reset("On") // the medium is still in, and the override is used up
		after(rack.PowerOn + rack.Boot)
		if s := m.State(); s.Runs != "system" || s.Counts.Installs != 1 {
			t.Errorf("after the installation: %+v", s)
		}
	})
}

// A machine boots by HTTP from the URL that it was given, when it is told to
// boot so, and from nothing else.
func TestInstallationByHTTP(t *testing.T) {
	url, digest := images(t)
	in(t, one(rack, isBlank), func(t *testing.T, m *lab.Machine, b *bmc) {
		uri := func(to string) string { return `{"Boot": {"HttpBootUri": ` + to + `}}` }
		for _, wrong := range []string{`7`, `"nfs://x/y"`, `"here"`} {
			b.want(400, "PATCH", sys, uri(wrong))
		}
		b.want(200, "PATCH", sys, uri(`"`+url+`"`))
		b.reset("On")
		after(rack.PowerOn + rack.Boot)
		if s := m.State(); s.Counts.Installers != 0 {
			t.Errorf("booted without an override: %+v", s)
		}
		b.reset("ForceOff")
		after(rack.PowerOff)
		b.override("Once", "UefiHttp")
		b.reset("On")
		after(rack.PowerOn)
		fetched()
		after(rack.Install + rack.PowerOff)
		if s := m.State(); s.DiskDigest != digest || s.Power != "Off" || s.Counts.Installs != 1 || s.BootURL != url || s.Media != "" {
			t.Errorf("the machine has %+v", s)
		}
		b.reset("On") // the override is used up
		after(rack.PowerOn + rack.Boot)
		if s := m.State(); s.Runs != "system" || s.Counts.Installs != 1 {
			t.Errorf("after the installation: %+v", s)
		}
		b.want(200, "PATCH", sys, uri("null"))
		if s := m.State(); s.BootURL != "" {
			t.Errorf("the URL is still %q", s.BootURL)
		}
	})
	in(t, one(rack, func(m *lab.MachineConfig) { m.Personality = "ilo5" }), func(t *testing.T, _ *lab.Machine, b *bmc) {
		b.want(400, "PATCH", sys, `{"Boot": {"HttpBootUri": "http://x/y"}}`)
	})
}

// A disk that was only partly written holds nothing that boots.
func TestPowerLostWhileTheDiskIsWritten(t *testing.T) {
	url, _ := images(t)
	in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
		install(b, url)
		fetched()
		after(rack.Install / 2)
		b.reset("ForceOff")
		after(time.Hour)
		power(t, m, "Off")
		if s := m.State(); s.DiskDigest != "" || s.Marker != nil || s.Counts.Installs != 0 {
			t.Errorf("the machine has %+v", s)
		}
	})
}

func TestPowerLostWhileTheImageIsFetched(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(gone)
	}))
	defer srv.Close()
	f := build(t, one(lab.Latency{}))
	m, b := f.Machine("n1"), beside(t, f)
	b.insert(srv.URL)
	b.override("Once", "Cd")
	m.SetPower("on")
	<-asked
	m.SetPower("off")
	<-gone
	if s := m.State(); s.DiskDigest != "factory" || s.Power != "Off" || s.Counts.Installs != 0 {
		t.Errorf("the machine has %+v", s)
	}
}

func TestImageThatCannotBeFetchedHaltsTheBoot(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for what, url := range map[string]string{"missing": srv.URL, "no server": "http://127.0.0.1:1/none.iso"} {
		in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
			install(b, url)
			fetched()
			power(t, m, "On")
			progress(t, b, "None")
			if s := m.State(); s.Runs != "" || s.DiskDigest != "factory" || s.Counts.Installs != 0 {
				t.Errorf("%s: the machine has %+v", what, s)
			}
		})
	}
}

func TestBehindTheBack(t *testing.T) {
	in(t, one(rack), func(t *testing.T, m *lab.Machine, b *bmc) {
		b.reset("On")
		m.SetPower("") // nothing is asked for, so nothing is broken off
		after(rack.PowerOn)
		power(t, m, "On")
		m.SetPower("off")
		power(t, m, "Off")
		b.reset("On")
		m.SetPower("on")
		power(t, m, "On")
		after(time.Hour)
		if m.BootCount() != 2 || m.Resets() != 2 {
			t.Errorf("%d boots and %d resets, want 2 of each", m.BootCount(), m.Resets())
		}
		if err := m.SetBootOrder("Pxe", "Hdd"); err != nil || fmt.Sprint(m.BootOrder()) != "[Pxe Hdd]" {
			t.Errorf("boot order %v, %v", m.BootOrder(), err)
		}
		if err := m.SetBootOrder("Floppy"); err == nil || !strings.Contains(err.Error(), "Cd, UefiHttp, Usb") {
			t.Errorf("a boot order with a floppy: %v", err)
		}
	})
}

func TestLatencyAndSpeed(t *testing.T) {
	c := one(lab.Latency{GET: 200 * time.Millisecond, Write: 500 * time.Millisecond, PowerOn: 30 * time.Second})
	c.Speed = 10
	in(t, c, func(t *testing.T, m *lab.Machine, b *bmc) {
		took := func(do func()) time.Duration {
			began := time.Now()
			do()
			return time.Since(began)
		}
		if got := took(func() { b.system() }); got != 20*time.Millisecond {
			t.Errorf("a read took %s", got)
		}
		if got := took(func() { b.reset("On") }); got != 50*time.Millisecond {
			t.Errorf("a write took %s", got)
		}
		after(3*time.Second - 1)
		power(t, m, "PoweringOn")
		after(1)
		power(t, m, "On")
		m.SetFault(lab.Fault{Kind: lab.FaultSlow, Delay: site.Duration(10 * time.Second)})
		if got := took(func() { b.system() }); got != 1020*time.Millisecond {
			t.Errorf("a read of a slow BMC took %s", got)
		}
	})
}

// Jitter is within its share, differs from request to request, and is the
// same for the same seed.
func TestJitterFollowsTheSeed(t *testing.T) {
	c := one(lab.Latency{GET: time.Second, Jitter: 0.2})
	run := func() (all []time.Duration) {
		in(t, c, func(t *testing.T, _ *lab.Machine, b *bmc) {
			for range 20 {
				began := time.Now()
				b.system()
				took := time.Since(began)
				if took < 800*time.Millisecond || took > 1200*time.Millisecond || len(all) > 0 && took == all[len(all)-1] {
					t.Errorf("a read took %s after %v", took, all)
				}
				all = append(all, took)
			}
		})
		return all
	}
	if first, second := run(), run(); fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("the same seed gave %v, then %v", first, second)
	}
}

func TestSessionsAge(t *testing.T) {
	in(t, one(lab.Latency{}), func(t *testing.T, m *lab.Machine, b *bmc) {
		resp, _ := b.do("POST", sessions, account)
		token := "X-Auth-Token: " + resp.Header.Get("X-Auth-Token")
		for range 3 { // being used keeps it
			after(20 * time.Minute)
			b.want(200, "GET", sys, "", token)
		}
		after(31 * time.Minute)
		b.want(401, "GET", sys, "", token)
	})
}
