// Runs the plugins of a folder as the original Velero's server does, calls each kind of the example plugin once, and
// prints the answers as one JSON document. Errors are part of the answers.
//
//	plugin-host call <folder of plugins> <folder for data>
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt/process"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const domain = "example.velero.io/"

type answers map[string]any

func (a answers) set(name string, value any, err error) {
	if err != nil {
		value = "error: " + err.Error()
	}
	a[name] = value
}

func main() {
	// The host starts itself first, to ask for the plugins that are built in. Here there are none.
	if len(os.Args) > 1 && os.Args[1] == "run-plugins" {
		framework.NewServer().Serve()
		return
	}
	logger := logrus.New()
	logger.SetOutput(os.Stderr)
	registry := process.NewRegistry(os.Args[2], logger, logrus.InfoLevel)
	if err := registry.DiscoverPlugins(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	manager := clientmgmt.NewManager(logger, logrus.InfoLevel, registry)
	defer manager.CleanupClients()
	found := answers{}
	list(found, registry)
	backup(found, manager)
	restore(found, manager)
	others(found, manager)
	store(found, manager, os.Args[3])
	volumes(found, manager, os.Args[3])
	text, err := json.MarshalIndent(found, "", " ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func item(annotations map[string]any) *unstructured.Unstructured {
	full := map[string]any{}
	for name, value := range annotations {
		full[domain+name] = value
	}
	metadata := map[string]any{"name": "web", "namespace": "shop", "annotations": full}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
}

func list(found answers, registry process.Registry) {
	for kind := range common.AllPluginKinds() {
		names := []string{}
		for _, plugin := range registry.List(common.PluginKind(kind)) {
			names = append(names, plugin.Name)
		}
		found["list "+kind] = names
	}
}

func backup(found answers, manager clientmgmt.Manager) {
	nightly := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "velero"}}
	action, err := manager.GetBackupItemActionV2(domain + "backup")
	if err != nil {
		found.set("backup", nil, err)
		return
	}
	selector, err := action.AppliesTo()
	found.set("backup applies to", selector.LabelSelector, err)
	updated, additional, operation, update, err := action.Execute(
		item(map[string]any{"operation": "never", "additional-items": "secrets/shop/a", "items-to-update": "configmaps/shop/web"}), nightly)
	found.set("backup executes", nil, err)
	if err == nil {
		found["backup executes"] = updated.UnstructuredContent()
	}
	found["backup additional items"] = fmt.Sprint(additional)
	found["backup items to update"] = fmt.Sprint(update)
	progress, err := action.Progress(operation, nightly)
	found.set("backup progress", fmt.Sprint(progress.Completed, progress.NTotal, progress.OperationUnits, progress.Started.Year() > 2000), err)
	found.set("backup cancel", "done", action.Cancel(operation, nightly))
	progress, err = action.Progress(operation, nightly)
	found.set("backup progress after cancel", fmt.Sprint(progress.Completed, " ", progress.Err), err)
	_, err = action.Progress("nonsense", nightly)
	found.set("backup progress of nonsense", nil, err)
	for _, behaviour := range []string{"fail", "panic"} {
		_, _, _, _, err = action.Execute(item(map[string]any{"execute": behaviour}), nightly)
		found.set("backup executes "+behaviour, nil, err)
	}
	first, err := manager.GetBackupItemActionV2(domain + "backup-v1")
	if err == nil {
		updated, _, _, _, err = first.Execute(item(nil), nightly)
		found.set("first version executes", nil, err)
		if err == nil {
			found["first version executes"] = updated.UnstructuredContent()
		}
	}
}

func restore(found answers, manager clientmgmt.Manager) {
	back := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "back", Namespace: "velero"}}
	action, err := manager.GetRestoreItemActionV2(domain + "restore")
	if err != nil {
		found.set("restore", nil, err)
		return
	}
	sent := item(map[string]any{"restore-operation": "takes=0s", "wait-for-additional-items": "5s"})
	output, err := action.Execute(&velero.RestoreItemActionExecuteInput{Item: sent, ItemFromBackup: sent, Restore: back})
	found.set("restore executes", nil, err)
	if err != nil {
		return
	}
	found["restore executes"] = output.UpdatedItem.UnstructuredContent()
	found["restore waits"] = fmt.Sprint(output.WaitForAdditionalItems, " ", output.AdditionalItemsReadyTimeout)
	progress, err := action.Progress(output.OperationID, back)
	found.set("restore progress", progress.Completed, err)
	ready, err := action.AreAdditionalItemsReady([]velero.ResourceIdentifier{{Name: "unready"}}, back)
	found.set("restore is ready", ready, err)
}

func others(found answers, manager clientmgmt.Manager) {
	nightly := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "velero"}}
	if action, err := manager.GetDeleteItemAction(domain + "delete"); err == nil {
		input := &velero.DeleteItemActionExecuteInput{Item: item(nil), Backup: nightly}
		found.set("delete executes", "done", action.Execute(input))
	}
	if action, err := manager.GetItemBlockAction(domain + "block"); err == nil {
		related, err := action.GetRelatedItems(item(map[string]any{"related-items": "pods/shop/a"}), nightly)
		found.set("block names", fmt.Sprint(related), err)
	}
}

func store(found answers, manager clientmgmt.Manager, folder string) {
	store, err := manager.GetObjectStore(domain + "folder")
	if err != nil {
		found.set("store", nil, err)
		return
	}
	found.set("store init", "done", store.Init(map[string]string{"path": folder, "bucket": "b"}))
	content := strings.Repeat("0123456789", 100_000)
	found.set("store put", "done", store.PutObject("b", "x/y", strings.NewReader(content)))
	exists, err := store.ObjectExists("b", "x/y")
	found.set("store exists", exists, err)
	if reader, err := store.GetObject("b", "x/y"); err == nil {
		read, err := io.ReadAll(reader)
		found.set("store gets what was put", string(read) == content, err)
	}
	prefixes, err := store.ListCommonPrefixes("b", "", "/")
	found.set("store folders", prefixes, err)
	keys, err := store.ListObjects("b", "x/")
	found.set("store objects", keys, err)
	found.set("store delete", "done", store.DeleteObject("b", "x/y"))
	reader, err := store.GetObject("b", "x/y")
	if err == nil {
		_, err = io.ReadAll(reader)
	}
	found.set("store gets nothing", nil, err)
}

func volumes(found answers, manager clientmgmt.Manager, folder string) {
	snapshotter, err := manager.GetVolumeSnapshotter(domain + "volumes")
	if err != nil {
		found.set("volumes", nil, err)
		return
	}
	found.set("volumes init", "done", snapshotter.Init(map[string]string{"path": folder + "/snapshots"}))
	csi := map[string]any{"driver": "example.velero.io", "volumeHandle": "v1"}
	volume := &unstructured.Unstructured{Object: map[string]any{"kind": "PersistentVolume", "spec": map[string]any{"csi": csi}}}
	id, err := snapshotter.GetVolumeID(volume)
	found.set("volumes id", id, err)
	snapshot, err := snapshotter.CreateSnapshot("v1", "zone", map[string]string{"a": "b"})
	found.set("volumes snapshot", strings.HasPrefix(snapshot, "snapshot-"), err)
	restored, err := snapshotter.CreateVolumeFromSnapshot(snapshot, "file", "zone", nil)
	found.set("volumes restored", strings.HasPrefix(restored, "v1-from-snapshot-"), err)
	changed, err := snapshotter.SetVolumeID(volume, "v2")
	found.set("volumes set", nil, err)
	if err == nil {
		found["volumes set"] = changed.UnstructuredContent()["spec"]
	}
	found.set("volumes delete", "done", snapshotter.DeleteSnapshot(snapshot))
}
