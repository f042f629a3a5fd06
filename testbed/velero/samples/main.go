// Prints custom resources as the original Velero's own types write them, one JSON document a line: of every kind the
// empty object first, then objects filled at random from the given seed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	velerov2alpha1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v2alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

func kinds() map[string]func() any {
	return map[string]func() any{
		"Backup":                 func() any { return &velerov1.Backup{} },
		"Restore":                func() any { return &velerov1.Restore{} },
		"Schedule":               func() any { return &velerov1.Schedule{} },
		"BackupStorageLocation":  func() any { return location() },
		"VolumeSnapshotLocation": func() any { return &velerov1.VolumeSnapshotLocation{} },
		"BackupRepository":       func() any { return &velerov1.BackupRepository{} },
		"DeleteBackupRequest":    func() any { return &velerov1.DeleteBackupRequest{} },
		"DownloadRequest":        func() any { return &velerov1.DownloadRequest{} },
		"ServerStatusRequest":    func() any { return &velerov1.ServerStatusRequest{} },
		"PodVolumeBackup":        func() any { return &velerov1.PodVolumeBackup{} },
		"PodVolumeRestore":       func() any { return &velerov1.PodVolumeRestore{} },
		"DataUpload":             func() any { return &velerov2alpha1.DataUpload{} },
		"DataDownload":           func() any { return &velerov2alpha1.DataDownload{} },
	}
}

// The schema wants an object storage in every location.
func location() *velerov1.BackupStorageLocation {
	location := &velerov1.BackupStorageLocation{}
	location.Spec.ObjectStorage = &velerov1.ObjectStorageLocation{}
	return location
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 3).Funcs(
		func(meta *metav1.ObjectMeta, c randfill.Continue) {
			meta.Name = "sample"
			meta.Namespace = "velero"
			meta.Labels = map[string]string{"velero.io/storage-location": "default"}
		},
		func(typeMeta *metav1.TypeMeta, c randfill.Continue) {},
		func(at *metav1.Time, c randfill.Continue) {
			at.Time = time.Unix(c.Int63n(4_000_000_000), 0).UTC()
		},
		// Never nil: a pointer to a nil map would be written as null, which no running Velero does.
		func(values *map[string]string, c randfill.Continue) {
			*values = map[string]string{c.String(5): c.String(5)}
		},
		func(selector *corev1.SecretKeySelector, c randfill.Continue) {
			selector.Name = "credentials"
			selector.Key = c.String(5)
		},
		func(storage *velerov1.StorageType, c randfill.Continue) {
			storage.ObjectStorage = &velerov1.ObjectStorageLocation{}
			c.Fill(storage.ObjectStorage)
		},
		func(selectors *[]*metav1.LabelSelector, c randfill.Continue) {
			selector := &metav1.LabelSelector{}
			c.Fill(selector)
			*selectors = []*metav1.LabelSelector{selector}
		},
		// The schema wants a command in every hook.
		func(hook *velerov1.BackupResourceHook, c randfill.Continue) {
			hook.Exec = &velerov1.ExecHook{Container: c.String(5), Command: []string{c.String(5)}}
			c.Fill(&hook.Exec.Timeout)
		},
		func(hook *velerov1.ExecRestoreHook, c randfill.Continue) {
			c.FillNoCustom(hook)
			hook.Command = []string{c.String(5)}
		},
		func(hook *velerov1.InitRestoreHook, c randfill.Continue) {
			hook.InitContainers = make([]runtime.RawExtension, 1)
			c.Fill(&hook.InitContainers[0])
			c.Fill(&hook.Timeout)
		},
		func(raw *runtime.RawExtension, c randfill.Continue) {
			raw.Raw = []byte(`{"name":"wait","image":"busybox","command":["true"]}`)
		},
	)
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: samples COUNT")
		os.Exit(2)
	}
	output := json.NewEncoder(os.Stdout)
	for kind, empty := range kinds() {
		for seed := range count {
			object := empty()
			if seed > 0 {
				filler(int64(seed)).Fill(object)
			}
			check(output.Encode(map[string]any{"kind": kind, "object": object}))
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
