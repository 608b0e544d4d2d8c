package lab

import "fmt"

// What the personalities call the parts of their machines.

func (p *personality) plainParts() partHabits {
	return partHabits{
		processor: numbered("cpu%d"), dimm: func(s, n int) string { return fmt.Sprintf("dimm%d_%d", s, n) }, dimms: 16,
		processorModel: "Lab Processor 32", processorMaker: "Lab Processors", memoryKind: "DDR5", cores: 32,
		storage: "nvme", drive: numbered("drive%d"), adapter: "nic1", pcie: "slot1", port: numbered("%d"), function: numbered("function%d"),
		ethernet: numbered("eth%d"), management: "eth0", psu: numbered("psu%d"), fan: numbered("fan%d"),
		subsystems: true, ports: true, volumes: volumesDrives,
		firmware: func(_ int, component, _ string) string { return component },
		logs:     []logHabit{{p.system + "/LogServices/SEL", "SEL"}},
	}
}

func (p *personality) dellParts() partHabits {
	return partHabits{
		processor: numbered("CPU.Socket.%d"), dimm: func(s, n int) string { return fmt.Sprintf("DIMM.Socket.%c%d", 'A'+s-1, n) }, dimms: 16,
		processorModel: "Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz", processorMaker: "Intel", memoryKind: "DDR4", cores: 18,
		storage: "CPU.1", drive: func(n int) string { return fmt.Sprintf("Disk.Bay.%d:Enclosure.Internal.0-1", n-1) },
		adapter: "NIC.Integrated.1", pcie: "49-0", port: numbered("NIC.Integrated.1-%d"), function: numbered("NIC.Integrated.1-%d-1"),
		ethernet: numbered("NIC.Integrated.1-%d-1"), management: "NIC.1", psu: numbered("PSU.Slot.%d"), fan: numbered("Fan.Embedded.%dA"),
		backplane: "Enclosure.Internal.0-1", subsystems: true, legacy: true, volumes: volumesDrives,
		firmware: func(n int, component, version string) string {
			names := map[string]string{"bmc": "25227-%s__iDRAC.Embedded.1-1", "bios": "159-%s__BIOS.Setup.1-1", "nic": "108089-%s__NIC.Integrated.1-1-1", "psu": "108076-%s__PSU.Slot.1"}
			return "Installed-" + fmt.Sprintf(or(names[component], "107649-%s__Disk.Bay.0:Enclosure.Internal.0-1"), version)
		},
		logs: []logHabit{{p.manager + "/LogServices/Sel", "SEL"}, {p.manager + "/LogServices/Lclog", "OEM"}},
	}
}

func (p *personality) hpeParts() partHabits {
	return partHabits{
		processor: numbered("%d"), dimm: func(s, n int) string { return fmt.Sprintf("proc%ddimm%d", s, n) }, dimms: 16, listed: true,
		processorModel: "AMD EPYC 7763 64-Core Processor                ", processorMaker: "Advanced Micro Devices, Inc.", memoryKind: "DDR4", cores: 64,
		storage: "DA000000", drive: func(n int) string { return fmt.Sprintf("DA%06d", n-1) }, adapter: "DE084000", pcie: "222", port: func(n int) string { return fmt.Sprint(n - 1) },
		function: numbered("%d"), ethernet: numbered("%d"), management: "1", psu: func(n int) string { return fmt.Sprint(n - 1) }, fan: func(n int) string { return fmt.Sprintf("Fan%d", n) },
		legacy: true, ports: true,
		firmware: func(n int, _, _ string) string { return fmt.Sprint(n) },
		logs:     []logHabit{{p.system + "/LogServices/IML", "OEM"}, {p.manager + "/LogServices/IEL", "OEM"}},
	}
}

func (p *personality) lenovoParts() partHabits {
	return partHabits{
		processor: numbered("%d"), dimm: func(s, n int) string { return fmt.Sprint((s-1)*16 + n) }, dimms: 16, listed: true,
		processorModel: "Intel(R) Xeon(R) Platinum 8362 CPU @ 2.80GHz", processorMaker: "Intel(R) Corporation", memoryKind: "DDR4", cores: 32,
		storage: "Direct_Attached_NVMe", drive: func(n int) string { return fmt.Sprintf("Drive.Bay_%d", n-1) }, adapter: "slot-27", pcie: "slot_27", port: numbered("%d"),
		function: func(n int) string { return fmt.Sprintf("slot_27.%02d", n-1) }, ethernet: numbered("NIC%d"), management: "NIC", psu: numbered("PSU%d"), fan: numbered("Fan_%dA_Tach"),
		backplane: "3", subsystems: true, legacy: true, ports: true, volumes: volumesEmpty,
		firmware: func(n int, component, _ string) string {
			return map[string]string{"bmc": "BMC-Primary", "bios": "UEFI", "nic": "Slot_27.1", "psu": "PSU1", "drive": "Disk1"}[component]
		},
		logs: []logHabit{{p.system + "/LogServices/PlatformLog", "Event"}, {p.system + "/LogServices/AuditLog", "Event"}},
	}
}
