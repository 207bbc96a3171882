/** Where a command leads when it is about objects that kubectl changes in a cluster. */
export const USE_KUBECTL = "in a cluster kubectl does this: kubectl apply -f, kubectl delete -f";
/** Where it leads when it is about the state of one node. */
export const NODE_ONLY =
  "this is about the state of one node: run it there, with --socket or without --kubeconfig; kubectl and etcd keep the cluster's";
/** Where it leads when it is about whose a network is. */
export const CLUSTER_ONLY = "name the cluster, as an administrator: --kubeconfig FILE";
