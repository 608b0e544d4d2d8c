package lab

import (
	"fmt"
	"slices"
)

// The settings of the personalities' firmware: a choice of what their
// registries have, each by its vendor's name.

func plainBIOS(system string) biosHabits {
	return biosHabits{
		path: system + "/Bios", settings: system + "/Bios/Settings", registry: "LabBiosAttributeRegistry.1.0.0", file: "LabBiosAttributeRegistry",
		store: root + "/Registries/LabBiosAttributeRegistry/LabBiosAttributeRegistry.1.0.0", applyTimes: []string{"OnReset"}, takesApplyTime: applyTimeTaken,
		attributes: []attribute{
			toggle("HyperThreading", "Hyper-threading", "Enabled"),
			toggle("Virtualization", "Virtualization in the processor", "Enabled"),
			toggle("Iommu", "Address translation for devices", "Enabled"),
			toggle("SrIov", "Virtual functions of PCI devices", "Disabled"),
			toggle("TurboMode", "Clock above the nominal one", "Enabled"),
			toggle("SecureBoot", "Secure boot", "Disabled"),
			toggle("Tpm", "Trusted platform module", "Enabled"),
			choice("PowerProfile", "Power profile", "Balanced", "Performance", "Balanced", "PowerSaving"),
			choice("BootMode", "Boot mode", "Uefi", "Uefi"),
			choice("PowerRecovery", "State after a loss of power", "Last", "Last", "On", "Off"),
			count("PowerRecoveryDelay", "Delay after a loss of power, in seconds", 0, 0, 600),
			count("PatrolScrubHours", "Hours in which the memory is scrubbed", 24, 1, 24),
			flag("QuietBoot", "Boot without messages", true),
			text("AssetTag", "Asset tag", "", 32),
			text("SystemSerialNumber", "Serial number", "", 64).fixed(),
			toggle("HttpBoot", "Boot by HTTP", "Disabled"),
			choice("HttpBootDevice", "Device that boots by HTTP", "Nic1", "Nic1", "Nic2").while("HttpBoot", "Enabled"),
		},
	}
}

func dellBIOS(system, manager string) biosHabits {
	return biosHabits{
		path: system + "/Bios", settings: system + "/Bios/Settings", registry: "BiosAttributeRegistry.v1_0_3", file: "BiosAttributeRegistry.v1_0_0",
		store: system + "/Bios/BiosRegistry", applyTimes: []string{"OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"},
		takesApplyTime: applyTimeTaken, jobs: manager + "/Oem/Dell/Jobs",
		attributes: slices.Concat([]attribute{
			text("SystemModelName", "System Model Name", "PowerEdge R750", 80).fixed(),
			text("SystemBiosVersion", "System BIOS Version", "1.8.2", 48).fixed(),
			toggle("LogicalProc", "Logical Processor", "Enabled"),
			toggle("ProcVirtualization", "Virtualization Technology", "Enabled"),
			toggle("SriovGlobalEnable", "SR-IOV Global Enable", "Disabled"),
			choice("SysProfile", "System Profile", "PerfPerWattOptimizedDapc", "PerfPerWattOptimizedDapc", "PerfPerWattOptimizedOs", "PerfOptimized", "PerfWorkStationOptimized", "Custom"),
			toggle("ProcTurboMode", "Turbo Boost", "Enabled").while("SysProfile", "Custom"),
			choice("ProcCStates", "C States", "Enabled", "Enabled", "Disabled", "Autonomous").while("SysProfile", "Custom"),
			toggle("ProcC1E", "C1E", "Enabled").while("SysProfile", "Custom"),
			choice("WorkloadProfile", "Workload Profile", "NotConfigured", "NotConfigured", "HpcProfile", "LowLatencyOptimizedProfile", "VirtualizationOptimizedProfile"),
			choice("BootMode", "Boot Mode", "Uefi", "Bios", "Uefi"),
			toggle("SecureBoot", "Secure Boot", "Disabled"),
			choice("SecureBootMode", "Secure Boot Mode", "DeployedMode", "UserMode", "DeployedMode"),
			choice("TpmSecurity", "TPM Security", "On", "Off", "On"),
			choice("Tpm2Hierarchy", "TPM Hierarchy", "Enabled", "Enabled", "Disabled", "Clear"),
			choice("AcPwrRcvry", "AC Power Recovery", "Last", "On", "Off", "Last"),
			choice("AcPwrRcvryDelay", "AC Power Recovery Delay", "Immediate", "Immediate", "Random", "User"),
			count("AcPwrRcvryUserDelay", "User Defined Delay", 120, 120, 600).while("AcPwrRcvryDelay", "User"),
			choice("SerialComm", "Serial Communication", "OnConRedir", "OnNoConRedir", "OnConRedir", "Off", "Auto"),
			toggle("RedirAfterBoot", "Redirection After Boot", "Enabled"),
			choice("SubNumaCluster", "Sub NUMA Cluster", "Disabled", "Disabled", "2Way"),
			toggle("MmioAbove4Gb", "Memory Mapped I/O above 4GB", "Enabled"),
			choice("MemPatrolScrub", "Memory Patrol Scrub", "Standard", "Extended", "Standard", "Disabled").while("SysProfile", "Custom"),
			toggle("HttpDev1EnDis", "HTTP Device1", "Disabled"),
			choice("HttpDev1Interface", "HTTP Device1 Interface", "NIC.Integrated.1-1-1", "NIC.Integrated.1-1-1", "NIC.Integrated.1-2-1").while("HttpDev1EnDis", "Enabled"),
			text("HttpDev1Uri", "HTTP Device1 URI", "", 255).while("HttpDev1EnDis", "Enabled"),
			toggle("PxeDev1EnDis", "PXE Device1", "Enabled"),
			text("AssetTag", "Asset Tag", "", 63),
			{name: "SetupPassword", title: "Setup Password", kind: "Password", value: nil, high: 32},
		}, slots(8, func(i int) attribute {
			return choice(fmt.Sprintf("Slot%d", i), fmt.Sprintf("Slot %d", i), "Enabled", "Enabled", "Disabled", "BootDriverDisabled")
		}), slots(16, func(i int) attribute {
			return count(fmt.Sprintf("PxeDev%dVlanId", i), fmt.Sprintf("PXE Device%d VLAN ID", i), 1, 1, 4094)
		})),
	}
}

func hpeBIOS() biosHabits {
	const at = root + "/systems/1/bios"
	return biosHabits{
		path: at, settings: at + "/settings", slashes: true, registry: "BiosAttributeRegistryA42.v1_2_60", file: "BiosAttributeRegistryA42.v1_2_60",
		store: root + "/registrystore/registries/en/biosattributeregistrya42.v1_2_60", takesApplyTime: applyTimeIgnored, mirrors: true,
		attributes: slices.Concat([]attribute{
			choice("WorkloadProfile", "Workload Profile", "GeneralPowerEfficientCompute", "GeneralPowerEfficientCompute", "GeneralPeakFrequencyCompute", "GeneralThroughputCompute",
				"Virtualization-PowerEfficient", "Virtualization-MaxPerformance", "LowLatency", "HighPerformanceCompute(HPC)", "I/OThroughput", "Custom"),
			toggle("ProcSMT", "AMD SMT Option", "Enabled"),
			toggle("ProcAmdIoVt", "AMD I/O Virtualization Technology", "Enabled"),
			toggle("Sriov", "SR-IOV", "Enabled"),
			toggle("ProcAMDBoost", "AMD Performance Determinism Boost", "Enabled"),
			choice("ProcAMDBoostControl", "AMD Fmax Boost Limit Control", "AmdFmaxBoostAuto", "AmdFmaxBoostAuto", "AmdFmaxBoostManual"),
			toggle("SecureBootStatus", "Secure Boot Status", "Disabled").fixed(),
			choice("TpmState", "Current TPM State", "PresentEnabled", "NotPresent", "PresentDisabled", "PresentEnabled").fixed(),
			choice("TpmVisibility", "TPM Visibility", "Visible", "Visible", "Hidden"),
			choice("BootMode", "Boot Mode", "Uefi", "Uefi", "LegacyBios"),
			choice("HttpSupport", "HTTP Support", "Auto", "Auto", "HttpsOnly", "HttpOnly", "Disabled"),
			choice("PowerOnDelay", "Power-On Delay", "NoDelay", "NoDelay", "RandomDelay", "15Sec", "30Sec"),
			choice("AutoPowerOn", "Automatic Power-On", "RestoreLastState", "AlwaysPowerOn", "AlwaysPowerOff", "RestoreLastState"),
			choice("SerialConsolePort", "BIOS Serial Console Port", "Virtual", "Auto", "Disabled", "Physical", "Virtual"),
			choice("NumaMemoryDomainsPerSocket", "NUMA memory domains per socket", "Auto", "Auto", "OneMemoryDomainPerSocket", "TwoMemoryDomainsPerSocket", "FourMemoryDomainsPerSocket"),
			toggle("MemPatrolScrubbing", "Memory Patrol Scrubbing", "Enabled"),
			count("PatrolScrubDuration", "Patrol Scrub Duration", 24, 1, 24),
			text("ServerName", "Server Name", "", 28),
			text("ServerAssetTag", "Server Asset Tag", "", 32),
			text("AdminName", "Administrator Name", "", 28),
			text("SerialNumber", "Serial Number", "", 16).fixed(),
		}, slots(8, func(i int) attribute {
			return choice(fmt.Sprintf("PciSlot%dEnable", i), fmt.Sprintf("PCI Slot %d", i), "Auto", "Auto", "Disabled")
		}), slots(8, func(i int) attribute {
			return choice(fmt.Sprintf("Slot%dNicBoot1", i), fmt.Sprintf("Slot %d NIC Boot Option", i), "Disabled", "NetworkBoot", "Disabled")
		})),
	}
}

func lenovoBIOS(system string) biosHabits {
	return biosHabits{
		path: system + "/Bios", settings: system + "/Bios/Pending", registry: "BiosAttributeRegistry.1.0.0", file: "BiosAttributeRegistry.1.0.0",
		store: root + "/schemas/registries/BiosAttributeRegistry.1.0.0.json", applyTimes: []string{"OnReset"}, takesApplyTime: applyTimeUnknown,
		mirrors: true, textDefaults: true,
		attributes: slices.Concat([]attribute{
			choice("OperatingModes_ChooseOperatingMode", "Choose Operating Mode", "Efficiency_FavorPerformance",
				"MinimalPower", "Efficiency_FavorPower", "Efficiency_FavorPerformance", "MaximumPerformance", "CustomMode"),
			toggle("Processors_HyperThreading", "Hyper-Threading", "Enabled"),
			toggle("Processors_IntelVirtualizationTechnology", "Intel Virtualization Technology", "Enabled"),
			toggle("DevicesandIOPorts_IntelVTforDirectedIOVTd", "Intel VT for Directed I/O (VT-d)", "Enabled"),
			toggle("DevicesandIOPorts_SRIOV", "SR-IOV", "Enabled"),
			toggle("Processors_TurboMode", "Turbo Mode", "Enabled").while("OperatingModes_ChooseOperatingMode", "CustomMode"),
			choice("Processors_CStates", "C-States", "Autonomous", "Autonomous", "Legacy", "Disabled").while("OperatingModes_ChooseOperatingMode", "CustomMode"),
			choice("Processors_SNC", "SNC", "Disabled", "Disabled", "SNC2"),
			flag("Processors_P2PCompletionRedirect", "P2P Completion Redirect", false),
			choice("BootModes_SystemBootMode", "System Boot Mode", "UEFIMode", "UEFIMode", "LegacyMode"),
			toggle("BootModes_InfiniteBootRetry", "Infinite Boot Retry", "Enabled"),
			toggle("SecureBootConfiguration_SecureBootSetting", "Secure Boot Setting", "Disabled"),
			toggle("SecureBootConfiguration_SecureBootStatus", "Secure Boot Status", "Disabled").fixed(),
			choice("TrustedComputingGroup_DeviceOperation", "Device Operation", "None", "None", "Clear"),
			text("TrustedComputingGroup_DeviceStatus", "Device Status", "TPM2.0 Device present", 255).fixed(),
			toggle("NetworkStackSettings_IPv4PXESupport", "IPv4 PXE Support", "Enabled"),
			toggle("NetworkStackSettings_IPv4HTTPSupport", "IPv4 HTTP Support", "Disabled"),
			count("NetworkStackSettings_PXEbootwaittime", "PXE boot wait time", 0, 0, 5),
			toggle("DevicesandIOPorts_ConsoleRedirection", "Console Redirection", "Enabled"),
			toggle("Memory_PatrolScrub", "Patrol Scrub", "Enabled"),
			toggle("Memory_MirrorMode", "Mirror Mode", "Disabled"),
			toggle("SystemRecovery_POSTWatchdogTimer", "POST Watchdog Timer", "Disabled"),
			count("SystemRecovery_POSTWatchdogTimerValue", "POST Watchdog Timer Value", 5, 5, 20),
		}, slots(8, func(i int) attribute {
			return toggle(fmt.Sprintf("EnableDisableAdapterOptionROMSupport_Slot%d", i), fmt.Sprintf("Slot %d", i), "Enabled")
		}), slots(8, func(i int) attribute {
			return choice(fmt.Sprintf("PCIeGenSpeed_Slot%d", i), fmt.Sprintf("Slot %d speed", i), "Auto", "Auto", "Gen1", "Gen2", "Gen3", "Gen4")
		})),
	}
}
